//! Tables in NumPy's files are read in memory that does not grow with them.
//!
//! The global allocator of this test binary keeps the most bytes that a thread has had at one time since it was asked to forget. That it
//! counts is shown by reading the same bytes from a pipe, which must be held.
#![allow(clippy::unwrap_used)] // a test that cannot go on should stop

mod archive;

use archive::{Entry, Kept, archive, npy};
use optfilter_table::{ColumnKind, Format, Rows, Source, TableReader, Wanted};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Constant initialisation, no destructor: touching them from the allocator allocates nothing.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

fn add(bytes: isize) {
    // A thread that is being torn down has no counter any more, and reads no table either.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(now.get())));
    });
}

// SAFETY: every method hands its arguments unchanged to the system's allocator, which keeps the contract of
// `GlobalAlloc`; counting touches thread-local integers and neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as isize);
        // SAFETY: the caller's obligations are passed on as they are.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as isize));
        // SAFETY: as above; `pointer` came from `System` through this allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there for a moment.
        add(size as isize);
        add(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes at one time beyond those at the start.
fn most<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.with(Cell::get);
    MOST.with(|most| most.set(before));
    let done = work();
    (done, usize::try_from(MOST.with(Cell::get) - before).unwrap())
}

const WIDTH: usize = 16;

/// `rows` rows of 16 numbers and a label, and an array beside them that nobody asks for.
fn written(rows: usize, deflated: bool) -> Kept {
    let numbers: Vec<u8> =
        (0..rows * WIDTH).flat_map(|i| ((i % 1000) as f64).to_le_bytes()).collect();
    let labels: Vec<u8> = (0..rows).map(|i| (i % 3) as u8).collect();
    Kept::new(&archive(&[
        Entry::new("beside", npy("|u1", &format!("{rows},"), &labels), deflated),
        Entry::new("x", npy("<f8", &format!("{rows}, {WIDTH}"), &numbers), deflated),
        Entry::new("y", npy("|u1", &format!("{rows},"), &labels), deflated),
    ]))
}

/// The number of rows, the sum of all numbers, and the most bytes that were held.
fn read(source: Source) -> (usize, f64, usize) {
    let ((rows, sum), held) = most(|| {
        let choose = |names: &[String]| {
            let wanted = names.iter().filter(|n| *n != "beside");
            wanted.map(|n| Wanted { column: n.clone(), kind: ColumnKind::Measurement }).collect()
        };
        let mut reader = TableReader::open(source, Format::Npz, choose).unwrap();
        assert!(reader.are_bytes(WIDTH) && !reader.are_bytes(0));
        let (mut rows, mut count, mut sum) = (Rows::default(), 0, 0.0);
        loop {
            let more = reader.read(&mut rows, 1000).unwrap();
            count += rows.rows;
            sum += rows.values.iter().sum::<f64>();
            rows.clear();
            if !more {
                return (count, sum);
            }
        }
    });
    (rows, sum, held)
}

#[test]
fn a_file_is_read_in_constant_memory() {
    for deflated in [false, true] {
        let mut held = Vec::new();
        // The second is 65 MB of numbers.
        for rows in [10_000, 500_000] {
            let file = written(rows, deflated);
            let (count, sum, bytes) = read(file.source());
            assert_eq!(count, rows);
            let expected: f64 = (0..rows * WIDTH).map(|i| (i % 1000) as f64).sum::<f64>()
                + (0..rows).map(|i| (i % 3) as f64).sum::<f64>();
            assert_eq!(sum, expected);
            held.push(bytes);
            if rows == 10_000 && !deflated {
                // From a pipe the bytes are held: the counter counts.
                let input = std::fs::File::open(file.path()).unwrap();
                let length = input.metadata().unwrap().len() as usize;
                assert!(read(Source::Stream(Box::new(input))).2 >= length);
            }
        }
        // Blocks of 64 KiB for each array, an inflater's window for each, and a thousand rows.
        println!("deflated {deflated}: at most {held:?} bytes were held");
        assert!(held[1] < 1 << 20, "{held:?}");
        assert!(held[1] < held[0] + (1 << 16), "{held:?}");
    }
}
