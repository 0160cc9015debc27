//! RocksDB, set up for point look-ups of keys that are mostly absent.

use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options, WriteBatch, WriteOptions,
};

use crate::key::KeyBytes;
use crate::peer::{Outcome, Peer, Place, Session};

use super::look_then_write::{Engine, InFlight, LookThenWrite};

const FAMILY: &str = "default";
const BLOOM_BITS: f64 = 10.0;
const WRITE_BUFFER_BYTES: usize = 128 << 20;
const WRITE_BUFFERS: i32 = 4;
const BACKGROUND_JOBS: i32 = 2;

/// A database whose writes go to its log, and from there to the page cache, before they are answered.
pub(super) fn open(place: &Place) -> Outcome<Box<dyn Peer>> {
    let options = options(usize::try_from(place.cache_bytes)?);
    let db = DB::open_cf_with_opts(&options, place.dir.join("db"), [(FAMILY, options.clone())])?;
    Ok(Box::new(Rocks { db, in_flight: InFlight::for_threads(place.threads) }))
}

fn options(cache_bytes: usize) -> Options {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_bloom_filter(BLOOM_BITS, false);
    blocks.set_whole_key_filtering(true);
    blocks.set_block_cache(&Cache::new_lru_cache(cache_bytes));
    blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    blocks.set_data_block_hash_ratio(0.75);
    blocks.set_format_version(5);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&blocks);
    options.set_compression_type(DBCompressionType::None);
    options.set_write_buffer_size(WRITE_BUFFER_BYTES);
    options.set_max_write_buffer_number(WRITE_BUFFERS);
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(0.05);
    options.set_max_background_jobs(BACKGROUND_JOBS);
    options.set_max_open_files(-1);
    options
}

struct Rocks {
    db: DB,
    in_flight: Option<InFlight>,
}

impl Peer for Rocks {
    fn session(&self) -> Outcome<Box<dyn Session + '_>> {
        Ok(Box::new(LookThenWrite::new(&self.db, self.in_flight.as_ref())))
    }
}

impl Engine for DB {
    fn look(&self, keys: &[KeyBytes], are_known: &mut Vec<bool>) -> Outcome<()> {
        if let [key] = keys {
            are_known.push(self.get_pinned(key)?.is_some());
            return Ok(());
        }
        let family = self.cf_handle(FAMILY).ok_or("the default family is always there")?;
        for found in self.batched_multi_get_cf(family, keys, true) {
            are_known.push(found?.is_some());
        }
        Ok(())
    }

    fn write(&self, keys: &[KeyBytes]) -> Outcome<()> {
        let mut batch = WriteBatch::default();
        for key in keys {
            batch.put(key, b"");
        }
        let mut options = WriteOptions::default();
        options.set_sync(false);
        Ok(self.write_opt(batch, &options)?)
    }
}
