//! Vectors and matrices whose sizes are known at run time only, and which a step of a filter takes and gives back without asking the
//! system: a thread keeps the memory that it has used.
//!
//! nalgebra's own dimension of that kind is `Dyn`, whose vectors are allocated one by one. A filter of [`Pooled`] dimensions computes the
//! same, to the bit.
//!
//! ```
//! use optfilter::Pooled;
//! let a = Pooled::matrix(2, 2, &[1.0, 3.0, 2.0, 4.0]);
//! let x = Pooled::vector(&[1.0, -1.0]);
//! assert_eq!((a * x).as_slice(), [-1.0, -1.0]);
//! ```

use alloc::alloc::{alloc, dealloc, handle_alloc_error};
use core::alloc::Layout;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use nalgebra::allocator::Allocator;
use nalgebra::{
    DefaultAllocator, Dim, IsContiguous, OMatrix, OVector, Owned, RawStorage, RawStorageMut,
    Scalar, Storage, U1,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A dimension that is known at run time, of vectors from the pool of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pooled(pub usize);

impl Pooled {
    /// A vector of these numbers.
    pub fn vector(numbers: &[f64]) -> OVector<f64, Self> {
        OVector::from_column_slice_generic(Self(numbers.len()), U1, numbers)
    }

    /// A matrix of these numbers, column by column: as many as rows times columns.
    pub fn matrix(rows: usize, columns: usize, numbers: &[f64]) -> OMatrix<f64, Self, Self> {
        OMatrix::from_column_slice_generic(Self(rows), Self(columns), numbers)
    }
}

// SAFETY: it is a number that is known at run time, and says so.
unsafe impl Dim for Pooled {
    #[inline(always)]
    fn try_to_usize() -> Option<usize> {
        None
    }
    #[inline(always)]
    fn value(&self) -> usize {
        self.0
    }
    #[inline(always)]
    fn from_usize(dim: usize) -> Self {
        Self(dim)
    }
}

/// The numbers of a vector or matrix, column by column.
pub struct PooledStorage<T, C: Dim> {
    data: NonNull<T>,
    rows: Pooled,
    columns: C,
}

// SAFETY: it owns its elements, as a vector does; the pool that memory goes back to is that of the thread that drops it.
unsafe impl<T: Send, C: Dim> Send for PooledStorage<T, C> {}
// SAFETY: as above.
unsafe impl<T: Sync, C: Dim> Sync for PooledStorage<T, C> {}

impl<T, C: Dim> PooledStorage<T, C> {
    #[inline(always)]
    fn len(&self) -> usize {
        self.rows.0 * self.columns.value()
    }

    /// Room for all elements, none of which is there yet.
    #[inline(always)]
    fn room(rows: Pooled, columns: C) -> PooledStorage<MaybeUninit<T>, C> {
        let count = rows.0.checked_mul(columns.value());
        let layout = count.and_then(|count| Layout::array::<T>(count).ok());
        let data = pool::take(layout.unwrap_or_else(too_large));
        PooledStorage { data: data.cast(), rows, columns }
    }

    #[inline(always)]
    fn layout(&self) -> Layout {
        // SAFETY: `room` has made this layout before, of the same sizes.
        unsafe { Layout::array::<T>(self.len()).unwrap_unchecked() }
    }

    #[inline(always)]
    fn as_slice(&self) -> &[T] {
        // SAFETY: `data` has room for as many elements, which are there: `room` itself gives a storage of what need not be.
        unsafe { core::slice::from_raw_parts(self.data.as_ptr(), self.len()) }
    }

    #[inline(always)]
    fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and nobody else has them.
        unsafe { core::slice::from_raw_parts_mut(self.data.as_ptr(), self.len()) }
    }

    /// The same with all elements there.
    ///
    /// # Safety
    /// They have been written.
    #[inline(always)]
    unsafe fn written(room: PooledStorage<MaybeUninit<T>, C>) -> Self {
        let room = ManuallyDrop::new(room);
        Self { data: room.data.cast(), rows: room.rows, columns: room.columns }
    }
}

#[cold]
fn wrong_count() -> ! {
    panic!("as many elements as the matrix has")
}

#[cold]
fn too_large() -> Layout {
    handle_alloc_error(Layout::new::<usize>())
}

impl<T, C: Dim> Drop for PooledStorage<T, C> {
    #[inline(always)]
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            // SAFETY: the elements are there, and nobody sees them any more.
            unsafe { core::ptr::drop_in_place(self.as_mut_slice()) };
        }
        // SAFETY: the memory was taken in this layout, and nobody sees it any more.
        unsafe { pool::give(self.data.cast(), self.layout()) };
    }
}

impl<T: Clone, C: Dim> Clone for PooledStorage<T, C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        let mut room = Self::room(self.rows, self.columns);
        for (to, from) in room.as_mut_slice().iter_mut().zip(self.as_slice()) {
            to.write(from.clone());
        }
        // SAFETY: there are as many of the one as of the other.
        unsafe { Self::written(room) }
    }
}

impl<T: fmt::Debug, C: Dim> fmt::Debug for PooledStorage<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<T: PartialEq, C: Dim> PartialEq for PooledStorage<T, C> {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.as_slice() == other.as_slice()
    }
}

// SAFETY: the elements lie one after the other, column by column.
unsafe impl<T, C: Dim> IsContiguous for PooledStorage<T, C> {}

// SAFETY: pointer, shape and strides are those of an array by columns, which is as long as the shape says.
unsafe impl<T, C: Dim> RawStorage<T, Pooled, C> for PooledStorage<T, C> {
    type RStride = U1;
    type CStride = Pooled;

    #[inline(always)]
    fn ptr(&self) -> *const T {
        self.data.as_ptr()
    }
    #[inline(always)]
    fn shape(&self) -> (Pooled, C) {
        (self.rows, self.columns)
    }
    #[inline(always)]
    fn strides(&self) -> (U1, Pooled) {
        (U1, self.rows)
    }
    #[inline(always)]
    fn is_contiguous(&self) -> bool {
        true
    }
    #[inline(always)]
    unsafe fn as_slice_unchecked(&self) -> &[T] {
        self.as_slice()
    }
}

// SAFETY: what is written through it is what `RawStorage` reads.
unsafe impl<T, C: Dim> RawStorageMut<T, Pooled, C> for PooledStorage<T, C> {
    #[inline(always)]
    fn ptr_mut(&mut self) -> *mut T {
        self.data.as_ptr()
    }
    #[inline(always)]
    unsafe fn as_mut_slice_unchecked(&mut self) -> &mut [T] {
        self.as_mut_slice()
    }
}

// SAFETY: a copy owns its elements.
unsafe impl<T: Scalar, C: Dim> Storage<T, Pooled, C> for PooledStorage<T, C>
where
    DefaultAllocator: Allocator<Pooled, C, Buffer<T> = Self>,
{
    #[inline(always)]
    fn into_owned(self) -> Owned<T, Pooled, C>
    where
        DefaultAllocator: Allocator<Pooled, C>,
    {
        self
    }
    #[inline(always)]
    fn clone_owned(&self) -> Owned<T, Pooled, C>
    where
        DefaultAllocator: Allocator<Pooled, C>,
    {
        self.clone()
    }
    #[inline(always)]
    fn forget_elements(self) {
        let this = ManuallyDrop::new(self);
        // SAFETY: the memory was taken in this layout, and this was its only owner.
        unsafe { pool::give(this.data.cast(), this.layout()) };
    }
}

impl<C: Dim> Allocator<Pooled, C> for DefaultAllocator {
    type Buffer<T: Scalar> = PooledStorage<T, C>;
    type BufferUninit<T: Scalar> = PooledStorage<MaybeUninit<T>, C>;

    #[inline(always)]
    fn allocate_uninit<T: Scalar>(rows: Pooled, columns: C) -> PooledStorage<MaybeUninit<T>, C> {
        PooledStorage::<T, C>::room(rows, columns)
    }
    #[inline(always)]
    unsafe fn assume_init<T: Scalar>(
        room: PooledStorage<MaybeUninit<T>, C>,
    ) -> PooledStorage<T, C> {
        // SAFETY: the caller has written all elements.
        unsafe { PooledStorage::written(room) }
    }
    #[inline(always)]
    fn allocate_from_iterator<T: Scalar, I: IntoIterator<Item = T>>(
        rows: Pooled,
        columns: C,
        iter: I,
    ) -> PooledStorage<T, C> {
        let mut room = PooledStorage::<T, C>::room(rows, columns);
        let mut iter = iter.into_iter();
        for to in room.as_mut_slice() {
            match iter.next() {
                Some(from) => to.write(from),
                None => wrong_count(),
            };
        }
        if iter.next().is_some() {
            wrong_count();
        }
        // SAFETY: as many were written as there are.
        unsafe { PooledStorage::written(room) }
    }
}

impl<T: Serialize, C: Dim + Serialize> Serialize for PooledStorage<T, C> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As nalgebra writes a vector of a size known at run time.
        (self.as_slice(), self.rows, self.columns).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Scalar, C: Dim + Deserialize<'de>> Deserialize<'de>
    for PooledStorage<T, C>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (data, rows, columns) = <(alloc::vec::Vec<T>, Pooled, C)>::deserialize(deserializer)?;
        if rows.0.checked_mul(columns.value()) != Some(data.len()) {
            return Err(serde::de::Error::custom("not as many components as the sizes say"));
        }
        Ok(<DefaultAllocator as Allocator<Pooled, C>>::allocate_from_iterator(rows, columns, data))
    }
}

/// Blocks of memory in sizes of powers of two. Those that nobody uses are chained by their first words.
mod pool {
    use super::*;

    /// The smallest block, and what all blocks are aligned to: a line of the cache, a vector of the widest unit.
    const LEAST: usize = 64;
    /// The number of sizes that are kept, up to 64 MiB.
    #[cfg(feature = "std")]
    const SIZES: usize = 21;
    /// Bytes of one size that a thread keeps at most: few of small blocks, and of large ones, whose pages are dear, as many as a filter of a
    /// million states takes in a step.
    #[cfg(feature = "std")]
    const fn most(block: usize) -> usize {
        if block < 1 << 16 { 1 << 20 } else { 1 << 26 }
    }

    /// What is asked for in place of a layout: a power of two, well aligned.
    #[inline(always)]
    fn block(layout: Layout) -> Layout {
        let size = layout.size().checked_next_power_of_two().unwrap_or(0).max(LEAST);
        let align = layout.align().max(LEAST);
        // More is asked for as it is: no allocator has it.
        if layout.size() > 1 << (usize::BITS - 3) {
            return layout;
        }
        // SAFETY: both are powers of two, and the size is far below isize::MAX.
        unsafe { Layout::from_size_align_unchecked(size, align) }
    }

    #[inline(always)]
    pub(super) fn take(layout: Layout) -> NonNull<u8> {
        if layout.size() == 0 {
            // SAFETY: an alignment is not zero.
            return unsafe {
                NonNull::new_unchecked(core::ptr::without_provenance_mut(layout.align()))
            };
        }
        let block = block(layout);
        #[cfg(feature = "std")]
        if let Some(found) = kept::take(block) {
            return found;
        }
        fresh(block)
    }

    #[cold]
    #[inline(never)]
    fn fresh(block: Layout) -> NonNull<u8> {
        // SAFETY: its size is not zero.
        NonNull::new(unsafe { alloc(block) }).unwrap_or_else(|| handle_alloc_error(block))
    }

    /// # Safety
    /// The block was [taken](take) in this layout, and nobody uses it any more.
    #[inline(always)]
    pub(super) unsafe fn give(data: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let block = block(layout);
        #[cfg(feature = "std")]
        // SAFETY: the caller's.
        if unsafe { kept::give(data, block) } {
            return;
        }
        // SAFETY: `take` has got it from the allocator in this layout.
        unsafe { dealloc(data.as_ptr(), block) };
    }

    #[cfg(feature = "std")]
    mod kept {
        use super::*;
        use core::cell::Cell;

        /// The blocks of one size: the first of the chain, and how many there are.
        type Chain = Cell<(Option<NonNull<Next>>, usize)>;

        /// The first word of a block that nobody uses.
        struct Next(Option<NonNull<Next>>);

        struct Kept([Chain; SIZES]);

        std::thread_local! {
            static KEPT_HERE: Kept = const { Kept([const { Cell::new((None, 0)) }; SIZES]) };
        }

        /// Which chain a block belongs to, if to any.
        #[inline(always)]
        fn size_of_block(block: Layout) -> Option<usize> {
            let which = (block.size() / LEAST).trailing_zeros() as usize;
            (which < SIZES && block.align() == LEAST).then_some(which)
        }

        #[inline(always)]
        pub(super) fn take(block: Layout) -> Option<NonNull<u8>> {
            let which = size_of_block(block)?;
            let taken = KEPT_HERE.try_with(|kept| {
                let (first, count) = kept.0[which].get();
                let first = first?;
                // SAFETY: a block in the chain is nobody else's, and begins with the next.
                kept.0[which].set((unsafe { first.read() }.0, count - 1));
                Some(first.cast())
            });
            taken.ok().flatten()
        }

        /// Whether the block was kept.
        ///
        /// # Safety
        /// It is of this layout, from the allocator, and nobody uses it any more.
        #[inline(always)]
        pub(super) unsafe fn give(data: NonNull<u8>, block: Layout) -> bool {
            let Some(which) = size_of_block(block) else { return false };
            let kept = KEPT_HERE.try_with(|kept| {
                let (first, count) = kept.0[which].get();
                if (count + 1) * block.size() > most(block.size()) {
                    return false;
                }
                // SAFETY: the block is the caller's, larger than a pointer, and as well aligned.
                unsafe { data.cast().write(Next(first)) };
                kept.0[which].set((Some(data.cast()), count + 1));
                true
            });
            kept.unwrap_or(false)
        }

        impl Drop for Kept {
            fn drop(&mut self) {
                for (which, chain) in self.0.iter().enumerate() {
                    let (mut first, _) = chain.take();
                    while let Some(block) = first {
                        // SAFETY: as in `take`; what was given had this layout, and came from the allocator.
                        unsafe {
                            first = block.read().0;
                            let layout = Layout::from_size_align_unchecked(LEAST << which, LEAST);
                            dealloc(block.as_ptr().cast(), layout);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::DMatrix;

    type Matrix = OMatrix<f64, Pooled, Pooled>;

    fn counted(rows: usize, columns: usize) -> Matrix {
        Matrix::from_fn_generic(Pooled(rows), Pooled(columns), |i, j| (i * 10 + j) as f64)
    }

    #[test]
    fn it_computes_as_any_matrix_does() {
        let (a, b) = (counted(3, 4), counted(4, 2));
        let dense = |a: &Matrix| DMatrix::from_column_slice(a.nrows(), a.ncols(), a.as_slice());
        assert_eq!((&a * &b).as_slice(), (dense(&a) * dense(&b)).as_slice());
        assert_eq!(
            (a.transpose() - a.transpose() * 0.5).as_slice(),
            (dense(&a).transpose() * 0.5).as_slice()
        );
        let empty = OVector::<f64, Pooled>::zeros_generic(Pooled(0), U1);
        assert_eq!(empty.len() + empty.clone().len(), 0);
    }

    #[cfg(feature = "std")]
    #[test]
    fn what_is_given_back_is_taken_again() {
        let first = counted(5, 5);
        let at = first.as_ptr();
        drop(first);
        assert_eq!(counted(4, 5).as_ptr(), at);
        // A thread gives back what others took, and all it has when it ends.
        let many: Vec<Matrix> = (0..100).map(|n| counted(n, n)).collect();
        std::thread::spawn(move || drop(many)).join().expect("a thread that drops");
    }

    #[test]
    fn elements_of_any_kind_are_dropped_once() {
        let one = std::sync::Arc::new(0);
        #[derive(Clone, Debug, PartialEq)]
        struct Counted(std::sync::Arc<i32>);
        let column = |n| {
            let all = (0..n).map(|_| Counted(one.clone()));
            <DefaultAllocator as Allocator<Pooled, U1>>::allocate_from_iterator(Pooled(n), U1, all)
        };
        let (a, b) = (column(3), column(2));
        let c = a.clone();
        assert_eq!(std::sync::Arc::strong_count(&one), 9);
        drop((a, b, c));
        assert_eq!(std::sync::Arc::strong_count(&one), 1);
    }

    #[test]
    fn it_is_written_as_a_vector_of_any_length() {
        let (ours, theirs) = (counted(2, 3), DMatrix::from_fn(2, 3, |i, j| (i * 10 + j) as f64));
        let bytes = postcard::to_allocvec(&ours).expect("bytes");
        assert_eq!(bytes, postcard::to_allocvec(&theirs).expect("bytes"));
        let back: Matrix = postcard::from_bytes(&bytes).expect("a matrix");
        assert_eq!(back, ours);
        let wrong = postcard::to_allocvec(&(vec![1.0], 2usize, 3usize)).expect("bytes");
        assert!(postcard::from_bytes::<Matrix>(&wrong).is_err());
    }
}
