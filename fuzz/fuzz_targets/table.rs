//! Any bytes as a table: whole rows of numbers, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optfilter_model::table::{Rows, ColumnKind, Format, Source, TableReader, Wanted};

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let format = match kind % 3 {
        0 => Format::Csv,
        1 => Format::Tsv,
        _ => Format::JsonLines,
    };
    let input = Source::Stream(Box::new(std::io::Cursor::new(bytes.to_vec())));
    // The first column as time, the others as measurements, whatever they are called.
    let choose = |columns: &[String]| {
        let kind = |i| match i {
            0 => ColumnKind::Time { seconds_per_unit: 1.0 },
            _ => ColumnKind::Measurement,
        };
        columns.iter().enumerate().map(|(i, c)| Wanted { column: c.clone(), kind: kind(i) }).collect()
    };
    let Ok(mut reader) = TableReader::open(input, format, choose) else { return };
    let width = reader.columns().len();
    let mut batch = Rows::default();
    while matches!(reader.read(&mut batch, 3), Ok(true)) {}
    if width == 0 {
        return; // `{}`: rows of nothing
    }
    assert!(batch.values.len() >= batch.rows * width);
    for row in 0..batch.rows {
        assert!(batch.values[row * width].is_finite());
        assert!(batch.time_text(row).is_some());
    }
});
