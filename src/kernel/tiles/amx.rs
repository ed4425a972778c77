//! AMX: eight registers that are tiles of 16 rows of 64 bytes, and an instruction that multiplies a tile
//! of 16 × 32 bfloat16 by one of 32 × 16 and adds the products to 16 × 16 sums in f32.
//!
//! The left-hand tile lies as its matrix does, 32 numbers of k in a row. The right-hand tile has two
//! numbers of k side by side for each column ([`pack`](super::pack)), so that 32 bits hold what is multiplied by 32
//! bits of a row. Stable Rust has no intrinsics for tiles, but assembly knows the registers.
//!
//! Numerics: a product of two bfloat16 is exact in f32; sums are f32, rounded to nearest even, in
//! ascending order of k by pairs. The instruction takes subnormal numbers for 0, of operands and of sums.
//! All of it depends on the numbers of a row and of a column alone, not on where they stand.

use super::SIDE;
use half::bf16;
use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Bytes in a row of any tile.
const ROW: usize = 64;

/// Whether tiles of bfloat16 can be used, and the instructions of AVX-512 for words and bfloat16 beside its
/// foundation. On Linux a process asks for the tiles' registers; it is asked for once, and what the answer
/// changes is only that the kernel saves more registers of a thread that uses them.
pub(in crate::kernel) fn detected() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512bf16")
            && processor_has_tiles()
            && permitted()
    })
}

/// AMX-TILE and AMX-BF16, and an operating system that saves their state.
fn processor_has_tiles() -> bool {
    const BF16_AND_TILE: u32 = 1 << 22 | 1 << 24;
    const STATE: u64 = 1 << 17 | 1 << 18;
    if !is_x86_feature_detected!("xsave") || __cpuid_count(0, 0).eax < 7 {
        return false;
    }
    #[target_feature(enable = "xsave")]
    fn saved() -> u64 {
        // SAFETY: register 0 exists wherever xsave is on.
        unsafe { _xgetbv(0) }
    }
    // SAFETY: the processor was found to have xsave, in use.
    let saved = unsafe { saved() };
    __cpuid_count(7, 0).edx & BF16_AND_TILE == BF16_AND_TILE && saved & STATE == STATE
}

/// Asks Linux for the tiles' data; `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: isize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XFEATURE_XTILEDATA: usize = 18;
    let answer: isize;
    // SAFETY: the system call reads its two numbers and touches no memory of the process; the
    // instruction changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XFEATURE_XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// What `ldtilecfg` reads.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// The tile registers of this thread, 16 rows of 64 bytes each, given back at the end.
pub(super) struct Tiles(PhantomData<*mut ()>);

impl Tiles {
    /// # Safety
    ///
    /// The processor has tiles ([`detected`]), and this thread holds no other [`Tiles`].
    pub(super) unsafe fn new() -> Self {
        static CONFIG: Config = {
            let (mut bytes, mut rows) = ([0; 16], [0; 16]);
            let mut i = 0;
            while i < 8 {
                (bytes[i], rows[i]) = (64, 16);
                i += 1;
            }
            Config { palette: 1, start: 0, reserved: [0; 14], bytes, rows }
        };
        // SAFETY: the processor has tiles; eight of 16 rows of 64 bytes are what palette 1 has.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(nostack, readonly)) };
        Tiles(PhantomData)
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: `new` was allowed to use tiles.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }
}

/// Where two tiles of columns find their operands, `steps` times 32 of k.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    /// Rows of k, `a_row` numbers apart, and the rows of the second tile.
    pub(super) a: [*const bf16; 2],
    pub(super) a_row: usize,
    /// For each step two tiles, one after the other.
    pub(super) b: *const bf16,
    pub(super) steps: usize,
}

/// Two rows of two tiles: sums of 32 × 32. `add` takes the sums that are there. A row of sums has
/// `sums_row` numbers.
///
/// # Safety
///
/// This thread holds [`Tiles`], all operands can be read and the sums written, and with `add` read.
#[inline(always)]
pub(super) unsafe fn multiply_two(of: Operands, sums: *mut f32, sums_row: usize, add: bool) {
    let second = sums.wrapping_add(SIDE * sums_row);
    // SAFETY: the caller's; the block clobbers no memory but the sums.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jz 3f",
            "tileloadd tmm0, [{c}+{row}*1]",
            "tileloadd tmm1, [{c}+{row}*1+64]",
            "tileloadd tmm2, [{d}+{row}*1]",
            "tileloadd tmm3, [{d}+{row}*1+64]",
            "jmp 4f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "4:",
            "test {n}, {n}",
            "jz 5f",
            "2:",
            "tileloadd tmm4, [{a}+{a_row}*1]",
            "tileloadd tmm6, [{b}+{b_row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b}+{b_row}*1+1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{a2}+{a_row}*1]",
            "tdpbf16ps tmm2, tmm5, tmm6",
            "tdpbf16ps tmm3, tmm5, tmm7",
            "add {a}, 64",
            "add {a2}, 64",
            "add {b}, 2048",
            "dec {n}",
            "jnz 2b",
            "5:",
            "tilestored [{c}+{row}*1], tmm0",
            "tilestored [{c}+{row}*1+64], tmm1",
            "tilestored [{d}+{row}*1], tmm2",
            "tilestored [{d}+{row}*1+64], tmm3",
            add = in(reg) usize::from(add),
            a = inout(reg) of.a[0] => _,
            a2 = inout(reg) of.a[1] => _,
            b = inout(reg) of.b => _,
            n = inout(reg) of.steps => _,
            a_row = in(reg) of.a_row * size_of::<bf16>(),
            b_row = in(reg) ROW,
            c = in(reg) sums,
            d = in(reg) second,
            row = in(reg) sums_row * size_of::<f32>(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        );
    }
}

/// As [`multiply_two`] with one tile of rows: sums of 16 × 32.
///
/// # Safety
///
/// As there; the second tile of rows is not read.
#[inline(always)]
pub(super) unsafe fn multiply_one(of: Operands, sums: *mut f32, sums_row: usize, add: bool) {
    // SAFETY: the caller's; the block clobbers no memory but the sums.
    unsafe {
        asm!(
            "test {add}, {add}",
            "jz 3f",
            "tileloadd tmm0, [{c}+{row}*1]",
            "tileloadd tmm1, [{c}+{row}*1+64]",
            "jmp 4f",
            "3:",
            "tilezero tmm0",
            "tilezero tmm1",
            "4:",
            "test {n}, {n}",
            "jz 5f",
            "2:",
            "tileloadd tmm4, [{a}+{a_row}*1]",
            "tileloadd tmm6, [{b}+{b_row}*1]",
            "tdpbf16ps tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b}+{b_row}*1+1024]",
            "tdpbf16ps tmm1, tmm4, tmm7",
            "add {a}, 64",
            "add {b}, 2048",
            "dec {n}",
            "jnz 2b",
            "5:",
            "tilestored [{c}+{row}*1], tmm0",
            "tilestored [{c}+{row}*1+64], tmm1",
            add = in(reg) usize::from(add),
            a = inout(reg) of.a[0] => _,
            b = inout(reg) of.b => _,
            n = inout(reg) of.steps => _,
            a_row = in(reg) of.a_row * size_of::<bf16>(),
            b_row = in(reg) ROW,
            c = in(reg) sums,
            row = in(reg) sums_row * size_of::<f32>(),
            out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
            options(nostack)
        );
    }
}
