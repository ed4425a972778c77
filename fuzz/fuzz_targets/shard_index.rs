#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shapeproof_fuzz::targets::shard_index(bytes));
