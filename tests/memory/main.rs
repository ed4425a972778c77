//! How much memory files and layers take, counted by an allocator: a test binary of its own, since
//! the count of bytes is the whole process's. Where every single call counts, it is that of one thread.

mod files;
mod layers;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

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
