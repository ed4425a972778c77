//! How much memory files and layers take, counted by an allocator: a test binary of its own, since
//! the count of bytes is the whole process's. Where every single call counts, it is that of one thread.

use shapeproof::{
    Activation, Batch, C, Causal, Checkpoint, Embedding, FeatureMap, FeedForward, Generator,
    HeadDim, Heads, Hidden, Infer, Key, KvCache, LayerNorm, Linear, LinearAttention, Mode, Model,
    Module, MultiHeadAttention, NoMask, Parameter, Query, Seq, Source, Static, Tensor, TensorFile,
    Train, Vocab, WeightLayout, bf16, f16, parameters, scaled_dot_product_attention,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

/// Buffers, names, error texts and the like.
const REST: usize = 512 << 10;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How often this thread asked for memory, and the bytes that it has more than it gave back.
    static OWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

struct Counting;

// SAFETY: every call is the system allocator's, whose contract it therefore keeps.
#[allow(unsafe_code, reason = "an allocator can be counted by another one alone")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.dealloc(block, layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks may be there while one is copied.
        add(size);
        remove(layout.size());
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.realloc(block, layout, size) }
    }
}

fn add(size: usize) {
    let (calls, bytes) = OWN.get();
    OWN.set((calls + 1, bytes.wrapping_add(size)));
    let live = LIVE.fetch_add(size, SeqCst) + size;
    PEAK.fetch_max(live, SeqCst);
}

fn remove(size: usize) {
    let (calls, bytes) = OWN.get();
    OWN.set((calls, bytes.wrapping_sub(size)));
    LIVE.fetch_sub(size, SeqCst);
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `f` returns, and how many bytes it had at a time beside what was there before.
fn peak<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    let result = f();
    (result, PEAK.load(SeqCst) - before)
}

/// What `f` returns, run by a pool of one thread, whose own count is then that of all that `f` does: what
/// other threads of the process do meanwhile has no part in it.
fn alone<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(f)
}

/// How many times `f` asks for memory, the second time that it runs.
fn allocations<T>(f: impl Fn() -> T + Send) -> usize {
    alone(move || {
        drop(f());
        let (before, _) = OWN.get();
        let result = f();
        let (after, _) = OWN.get();
        drop(result);
        after - before
    })
}

/// One test at a time, with a folder of its own.
struct Turn(PathBuf, #[allow(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Turn {
    fn new(name: &str) -> Self {
        static ONE: Mutex<()> = Mutex::new(());
        let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path =
            std::env::temp_dir().join(format!("shapeproof-memory-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Turn(path, turn)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

type Width = C<512>;

struct Net<E: shapeproof::Float> {
    table: Embedding<Vocab<C<2000>>, Model<Width>, E>,
    q: Linear<Model<Width>, Seq<Width>, shapeproof::Bias, E>,
    k: Linear<Model<Width>, Seq<Width>, shapeproof::Bias, E>,
    up: Linear<Model<Width>, Hidden<C<1024>>, shapeproof::Bias, E>,
    scale: Parameter<(), E>,
}

impl<E: shapeproof::Float> Module for Net<E> {
    shapeproof::parameters!(table, q, k, up, scale);
}

impl<E: shapeproof::Float> Net<E> {
    fn zeros() -> Self {
        Net {
            table: Embedding::zeros(),
            q: Linear::zeros(),
            k: Linear::zeros(),
            up: Linear::zeros(),
            scale: Parameter::zeros(),
        }
    }
}

/// The bytes of the largest parameter.
fn largest(module: &impl Module) -> usize {
    let bytes = parameters(module).into_iter().map(|(_, parameter)| {
        let width = if parameter.element() == "f64" { 8 } else { 4 };
        parameter.dims().iter().product::<usize>() * width
    });
    bytes.max().unwrap()
}

/// Loads twice, into a model that was just made and into the same one again.
fn loads_within_a_tensor<E: shapeproof::Float>(checkpoint: &Checkpoint, path: &Path) {
    let mut net = Net::<E>::zeros();
    let largest = largest(&net);
    for load in ["first", "second"] {
        let (loaded, peak) = peak(|| checkpoint.load(&mut net, path));
        loaded.unwrap();
        assert!(peak <= largest + REST, "{load} load: {peak} beside the model, {largest} allowed");
        assert!(peak >= largest / 2, "{load} load: {peak}, so the count is wrong");
    }
}

fn packed(name: &str) -> Source {
    let (map, rest) = name.split_once('.').unwrap_or((name, ""));
    match map {
        "q" => Source::key(format!("qk.{rest}")).part(0, 2),
        "k" => Source::key(format!("qk.{rest}")).part(1, 2),
        _ => Source::key(name),
    }
}

#[test]
fn loading_takes_the_model_and_its_largest_tensor() {
    let turn = Turn::new("load");
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        for packing in [false, true] {
            let checkpoint = Checkpoint::new(layout)
                .sources(move |name| if packing { packed(name) } else { Source::key(name) });
            checkpoint.save(&Net::<f32>::zeros(), turn.path("narrow")).unwrap();
            checkpoint.save(&Net::<f64>::zeros(), turn.path("wide")).unwrap();
            for path in [turn.path("narrow"), turn.path("wide")] {
                loads_within_a_tensor::<f32>(&checkpoint, &path);
                loads_within_a_tensor::<f64>(&checkpoint, &path);
            }
        }
    }
}

struct Pair(Linear<Model<Width>, Seq<Width>>, Linear<Model<Width>, Seq<Width>>);
impl Module for Pair {
    fn visit<'a>(&'a self, visitor: &mut dyn shapeproof::Visitor<'a>) {
        shapeproof::Field::visit_as(&self.0, "q", visitor);
        shapeproof::Field::visit_as(&self.1, "k", visitor);
    }
    fn visit_mut<'a>(&'a mut self, visitor: &mut dyn shapeproof::VisitorMut<'a>) {
        shapeproof::Field::visit_mut_as(&mut self.0, "q", visitor);
        shapeproof::Field::visit_mut_as(&mut self.1, "k", visitor);
    }
}

#[test]
fn a_packed_tensor_is_loaded_part_by_part() {
    let turn = Turn::new("packed");
    let mut pair = Pair(Linear::zeros(), Linear::zeros());
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let checkpoint = Checkpoint::new(layout).sources(packed);
        checkpoint.save(&pair, turn.path("pair")).unwrap();
        let (loaded, peak) = peak(|| checkpoint.load(&mut pair, turn.path("pair")));
        loaded.unwrap();
        let largest = largest(&pair);
        assert!(peak <= largest + REST, "{peak} beside the model, a part takes {largest}");
    }
}

#[test]
fn a_refused_load_takes_no_tensor() {
    let turn = Turn::new("refused");
    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    let mut net = Net::<f32>::zeros();
    net.scale.set(shapeproof::Tensor::scalar(f32::NAN));
    checkpoint.save(&net, turn.path("net")).unwrap();
    let (loaded, peak) = peak(|| checkpoint.load(&mut net, turn.path("net")));
    assert!(loaded.unwrap_err().to_string().contains("NaN"));
    assert!(peak <= REST, "{peak}");
}

#[test]
fn saving_takes_one_tensor_at_most() {
    let turn = Turn::new("save");
    for layout in [WeightLayout::OutIn, WeightLayout::InOut] {
        let checkpoint = Checkpoint::new(layout).sources(packed);
        let net = Net::<f32>::zeros();
        let (saved, peak) = peak(|| checkpoint.save(&net, turn.path("net")));
        saved.unwrap();
        assert!(peak <= largest(&net) + REST, "{peak}");
    }
}

#[test]
fn reading_a_tensor_takes_that_tensor() {
    let turn = Turn::new("read");
    let net = Net::<f32>::zeros();
    Checkpoint::new(WeightLayout::OutIn).save(&net, turn.path("net")).unwrap();
    let mut file = TensorFile::open(turn.path("net")).unwrap();
    let (tensor, peak) = peak(|| file.read("table.weight").unwrap());
    assert_eq!(tensor.dims(), [2000, 512]);
    assert!(peak <= largest(&net) + REST, "{peak}");
}

/// Opens a file of this header, made `length` bytes long, and returns the most memory it took.
fn opening(turn: &Turn, claimed: u64, text: &str, length: u64) -> usize {
    let path = turn.path("forged");
    fs::write(&path, [&claimed.to_le_bytes(), text.as_bytes()].concat()).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(length).unwrap();
    let mut table = Embedding::<Vocab<C<2>>, Model<C<3>>>::zeros();
    let checkpoint = Checkpoint::new(WeightLayout::OutIn);
    let (loaded, peak) = peak(|| checkpoint.load(&mut table, &path));
    assert!(loaded.unwrap_err().is_file());
    peak
}

#[test]
fn a_forged_header_takes_no_memory() {
    let turn = Turn::new("forged");
    for claimed in [33, 1 << 20, 99_999_999, 100_000_001, u64::MAX - 7, u64::MAX] {
        let peak = opening(&turn, claimed, "{}", 32);
        assert!(peak <= REST, "{peak} for a header of {claimed}");
    }
    for claimed in [100_000_001, 1 << 32, u64::MAX] {
        let peak = opening(&turn, claimed, "{}", 1 << 33);
        assert!(peak <= REST, "{peak} for a header of {claimed} in a long file");
    }
    for shape in ["[4611686018427387904]", "[0,18446744073709551615,9]", "[1000000,1000000]"] {
        let text = format!(
            r#"{{"weight":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4000000000000]}}}}"#
        );
        let peak = opening(&turn, text.len() as u64, &text, 8 + text.len() as u64);
        assert!(peak <= REST, "{peak} for sizes {shape}");
    }
}

#[test]
fn a_long_key_is_not_compared_with_a_missing_one() {
    let turn = Turn::new("key");
    let key = "k".repeat(4 << 20);
    let text = format!(r#"{{"{key}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}}}"#);
    let peak = opening(&turn, text.len() as u64, &text, 8 + text.len() as u64);
    assert!(peak <= 8 * text.len(), "{peak} for a header of {}", text.len());
}

#[test]
fn a_small_layer_allocates_its_output_alone() {
    let _turn = Turn::new("small");
    let layer = MultiHeadAttention::<C<32>, C<4>>::xavier(&mut Generator::seeded(1));
    let x = Tensor::<(Batch<C<2>>, Seq<C<16>>, Model<C<32>>)>::ones();
    // The elements, and the shared cell around them.
    assert_eq!(allocations(|| layer.forward(&x, NoMask, &mut Infer)), 2);
}

#[test]
fn what_other_threads_allocate_is_not_counted() {
    let _turn = Turn::new("others");
    let (start, done) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2 {
                start.wait();
                drop(vec![1u8; 1 << 20]);
                done.wait();
            }
        });
        let calls = allocations(|| {
            start.wait();
            done.wait();
            Box::new(1)
        });
        assert_eq!(calls, 1);
    });
}

#[test]
fn without_parameters_in_training_nothing_is_recorded() {
    let _turn = Turn::new("recorded");
    type Small = (Batch<C<4>>, Seq<C<6>>, Model<C<8>>);
    let x = Tensor::<Small>::ones();
    let row = Tensor::<(Model<C<8>>,)>::ones();
    // The elements of the result, and the shared cell around them.
    assert_eq!(allocations(|| x.add(&row)), 2);
    assert_eq!(allocations(|| x.mul(&x)), 2);
    assert_eq!(allocations(|| x.gelu()), 2);
    assert_eq!(allocations(|| x.softmax(Model)), 2);
    assert_eq!(allocations(|| x.sum(Model)), 2);
    // A view takes none.
    assert_eq!(allocations(|| x.transpose(Seq, Model)), 0);
    assert_eq!(allocations(|| x.try_select(Batch, 1)), 0);
    let up = Linear::<Model<C<8>>, Hidden<C<12>>>::xavier(&mut Generator::seeded(1));
    assert_eq!(allocations(|| up.forward(&x, &mut Infer)), 2);
    let norm = LayerNorm::<Model<C<8>>>::new(1e-5);
    assert_eq!(allocations(|| norm.forward(&x, &mut Infer)), 2);
    let block = FeedForward::<C<8>, C<12>>::xavier(Activation::Gelu, &mut Generator::seeded(2));
    assert_eq!(allocations(|| block.forward(&x, &mut Infer)), 4);
    // In training, each of them takes a node besides.
    assert!(allocations(|| up.forward(&x, &mut Train::seeded(1))) > 2);
}

/// What was computed before keeps what its gradient needs, and no more.
#[test]
fn a_graph_that_is_dropped_gives_its_memory_back() {
    let _turn = Turn::new("graph");
    let layer = Linear::<Model<C<64>>, Hidden<C<64>>>::xavier(&mut Generator::seeded(1));
    let x = Tensor::<(Batch<C<64>>, Model<C<64>>)>::ones();
    let step = || {
        let mut train = Train::seeded(1);
        let loss = layer.forward(&x, &mut train).gelu().mean_all();
        train.backward(&loss)
    };
    alone(|| {
        drop(step());
        let (_, before) = OWN.get();
        let gradients = step();
        let held = OWN.get().1.wrapping_sub(before);
        assert!(held < 4 * (64 * 64 + 64) + 2048, "{held} bytes for the gradients");
        drop(gradients);
        assert_eq!(OWN.get().1, before);
    });
}

/// 8 heads of 64 over 16,384 positions: the scores of one head alone would be 1 GiB.
#[test]
fn the_memory_of_attention_is_linear_in_length() {
    let _turn = Turn::new("long");
    type Long = (Batch<C<1>>, Heads<C<8>>, Query<C<16384>>, HeadDim<C<64>>);
    type Keys = (Batch<C<1>>, Heads<C<8>>, Key<C<16384>>, HeadDim<C<64>>);
    // Nothing but the last key is seen: quick, and every query's answer is its value.
    let last = Tensor::<(Key<C<16384>>,), bool>::from_fn(|at| at[0] == 16383);
    let (q, k) = (Tensor::<Long>::zeros(), Tensor::<Keys>::ones());
    let (y, peak) = peak(|| scaled_dot_product_attention(&q, &k, &k, last));
    assert!(y.to_vec().iter().all(|&y| y == 1.0));
    assert!(peak < 40 << 20, "{peak}");
}

type Long<A> = Tensor<(Batch<C<1>>, Heads<C<2>>, A, HeadDim<C<16>>)>;

/// The bytes that attention and its gradients take over this length, beside what goes in.
fn training<L: Static>(
    attend: impl Fn(&Long<Query<L>>, &Long<Key<L>>, &Long<Key<L>>) -> Long<Query<L>>,
) -> usize {
    let q = Parameter::new(Long::<Query<L>>::ones());
    let (k, v) = (Parameter::new(Long::<Key<L>>::ones()), Parameter::new(Long::<Key<L>>::ones()));
    let mut train = Train::seeded(1);
    let (gradients, bytes) = peak(|| {
        let y = attend(&train.read(&q), &train.read(&k), &train.read(&v));
        train.backward(&y.sum_all())
    });
    assert!(gradients.norm() > 0.0);
    bytes
}

/// Over 8,192 positions the weights of one head would be 256 MiB, q and each other operand is 1.
#[test]
fn the_memory_of_attentions_gradients_is_linear_in_length() {
    fn of<L: Static>() -> usize {
        // Quick, since few keys are seen: those at both ends.
        let seen = Tensor::<(Key<L>,), bool>::from_fn(|at| at[0] < 2 || at[0] + 2 >= L::N);
        training::<L>(|q, k, v| scaled_dot_product_attention(q, k, v, &seen))
    }
    let _turn = Turn::new("gradients");
    let (half, whole) = (of::<C<4096>>(), of::<C<8192>>());
    assert!(whole < 2 * half + half / 5, "{half} for 4096 positions, {whole} for 8192");
    assert!(whole < 16 << 20, "{whole}");
}

#[test]
fn the_memory_of_linear_attentions_gradients_is_linear_in_length() {
    let _turn = Turn::new("linear");
    for features in [FeatureMap::EluPlusOne, FeatureMap::Relu, FeatureMap::Normalized] {
        let attention = LinearAttention::new(features);
        let half = training::<C<1024>>(|q, k, v| attention.apply(q, k, v, Causal));
        let whole = training::<C<2048>>(|q, k, v| attention.apply(q, k, v, Causal));
        // The weights of one head would be 16 MiB, each operand is a quarter of one.
        assert!(whole < 2 * half + half / 5, "{half} for 1024 positions, {whole} for 2048");
        assert!(whole < 4 << 20, "{whole}");
    }
}

/// One token through both layers of a cache.
fn decode<Cap: shapeproof::Size>(cache: &mut KvCache<C<1>, Heads<C<4>>, Cap, C<64>>) {
    type One<A> = Tensor<(Batch<C<1>>, Heads<C<4>>, A, HeadDim<C<64>>)>;
    let mut step = cache.begin(Seq(C::<1>)).unwrap();
    let (q, k) = (One::<Query<C<1>>>::ones(), One::<Key<C<1>>>::ones());
    shapeproof::dyn_size!(keys = step.keys());
    for layer in 0..2 {
        step.append(layer, &k, &k).unwrap();
        let (k, v) = step.view(layer, Key(keys)).unwrap();
        assert_eq!(scaled_dot_product_attention(&q, &k, &v, NoMask).to_vec(), [1.0; 256]);
    }
    step.commit().unwrap();
}

/// Of each layer, the keys alone take 2 MiB.
#[test]
fn a_step_of_a_cache_takes_no_memory_of_its_size() {
    let _turn = Turn::new("cache");
    let (cache, all) = peak(|| KvCache::<_, _, C<2048>, _>::try_new(2));
    type Half<E> = KvCache<C<1>, Heads<C<4>>, C<2048>, C<64>, HeadDim<C<64>>, E>;
    for half in [peak(|| Half::<bf16>::try_new(2)).1, peak(|| Half::<f16>::try_new(2)).1] {
        let numbers = all - half; // two bytes less for each
        assert!(numbers.abs_diff(half) < 4096, "{all} bytes in f32, {half} in halves");
    }
    let mut cache = cache.unwrap();
    assert!(all >= 8 << 20, "{all}, so the count is wrong");
    decode(&mut cache);
    let ((), peak) = peak(|| (0..20).for_each(|_| decode(&mut cache)));
    assert!(peak <= 64 << 10, "{peak} for a step");
}

#[test]
fn a_ring_that_moves_its_positions_takes_no_memory_for_it() {
    let _turn = Turn::new("ring");
    let mut ring = KvCache::<_, _, C<256>, _>::try_ring(2, 200).unwrap();
    decode(&mut ring);
    let ((), peak) = peak(|| (0..600).for_each(|_| decode(&mut ring)));
    assert!(peak <= 64 << 10, "{peak} for a step");
}
