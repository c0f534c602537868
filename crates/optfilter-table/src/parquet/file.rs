//! A Parquet file whose pages may be compressed with zstd.
//!
//! The parquet crate unpacks zstd with a C library and lets nobody else do it. So it is told that those columns are
//! not compressed, and the pages that it hands out are unpacked here, by ruzstd. What pages claim is looked at before.

use super::claims;
use parquet::basic::Compression;
use parquet::bloom_filter::Sbbf;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;
use std::sync::Arc;

/// A file with its index.
pub(super) struct PackedFile<R> {
    reader: Arc<R>,
    metadata: ParquetMetaData,
}

impl<R: ChunkReader> PackedFile<R> {
    pub(super) fn new(reader: R) -> Result<Self> {
        claims::footer(&reader)?;
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&reader)?;
        claims::index(&metadata, reader.len())?;
        Ok(Self { reader: Arc::new(reader), metadata })
    }
}

impl<R: ChunkReader + 'static> FileReader for PackedFile<R> {
    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    fn num_row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    fn get_row_group(&self, i: usize) -> Result<Box<dyn RowGroupReader + '_>> {
        let metadata = self.metadata.row_group(i);
        Ok(Box::new(Group { reader: Arc::clone(&self.reader), metadata }))
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_file(projection, self)
    }
}

struct Group<'a, R> {
    reader: Arc<R>,
    metadata: &'a RowGroupMetaData,
}

impl<R: ChunkReader + 'static> RowGroupReader for Group<'_, R> {
    fn metadata(&self) -> &RowGroupMetaData {
        self.metadata
    }

    fn num_columns(&self) -> usize {
        self.metadata.num_columns()
    }

    fn get_column_page_reader(&self, i: usize) -> Result<Box<dyn PageReader>> {
        let (column, rows) = (self.metadata.column(i), usize::try_from(self.metadata.num_rows())?);
        let reader = Arc::clone(&self.reader);
        claims::pages(&*reader, column)?;
        let optional = column.column_descr().max_def_level() > 0;
        let packed = matches!(column.compression(), Compression::ZSTD(_));
        let pages = if packed {
            let plain = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED);
            SerializedPageReader::new(reader, &plain.build()?, rows, None)?
        } else {
            SerializedPageReader::new(reader, column, rows, None)?
        };
        let limit = packed.then_some(u64::try_from(column.uncompressed_size())?);
        Ok(Box::new(Unpacked { pages, limit, optional }))
    }

    fn get_column_bloom_filter(&self, _: usize) -> Option<&Sbbf> {
        None
    }

    fn get_row_iter(&self, projection: Option<Type>) -> Result<RowIter<'_>> {
        RowIter::from_row_group(projection, self)
    }
}

/// Pages, unpacked and looked at.
struct Unpacked<R: ChunkReader> {
    pages: SerializedPageReader<R>,
    /// Of zstd, what the whole column may have: a page that says more is not unpacked to its end.
    limit: Option<u64>,
    /// Whether values may be missing, so that pages begin with levels.
    optional: bool,
}

impl<R: ChunkReader> Unpacked<R> {
    /// The first `plain` bytes of a page as they are, and the others unpacked.
    fn unpack(page: &[u8], plain: usize, limit: u64) -> Result<bytes::Bytes> {
        let fail = |reason: String| ParquetError::General(format!("a page of zstd: {reason}"));
        let (levels, packed) =
            page.split_at_checked(plain).ok_or_else(|| fail("it is too short".into()))?;
        let mut out = levels.to_vec();
        if !packed.is_empty() {
            let decoder = StreamingDecoder::new(packed).map_err(|e| fail(e.to_string()))?;
            let read = decoder.take(limit.saturating_add(1)).read_to_end(&mut out);
            read.map_err(|e| fail(e.to_string()))?;
        }
        if out.len() as u64 > limit {
            return Err(fail("it holds more than the column".into()));
        }
        Ok(out.into())
    }
}

impl<R: ChunkReader> PageReader for Unpacked<R> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        if let Some(limit) = self.limit {
            match &mut page {
                Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => {
                    *buf = Self::unpack(buf, 0, limit)?;
                }
                Page::DataPageV2 {
                    buf,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    is_compressed,
                    ..
                } => {
                    if std::mem::take(is_compressed) {
                        let levels =
                            u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len);
                        *buf = Self::unpack(buf, usize::try_from(levels)?, limit)?;
                    }
                }
            }
        }
        claims::page(&page, self.optional)?;
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl<R: ChunkReader> Iterator for Unpacked<R> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}
