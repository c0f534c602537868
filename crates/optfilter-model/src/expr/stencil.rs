//! One equation over all indices of a field: a program, and where what it reads stands.
//!
//! ```text
//! out[i] = f(x[i + s_1], x[i + s_2], ...),          g[i + s_k] += (df/dx[i + s_k])(i) r[i]   backwards
//! ```
//!
//! The equation is compiled once, as a program whose states are its loads. It runs over blocks of consecutive
//! indices; a load of a block is a slice of the state, except at the edges of a field, where its numbers are gathered from
//! two or three slices, and for strides, where they are gathered one by one. Backwards, what a load passes back is added at the same places.

use super::block::{Block, Placed, Target};
use super::code::Environment;
use super::graph::{Graph, NodeId};
use super::index::Affine;
use super::program::Program;
use super::room::Room;
use optfilter::scalar::Scalar;
use std::ops::Range;

/// What lies beyond the edges of a field.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub enum Edges {
    /// Nothing: no index may leave the field.
    Closed,
    /// The other edge.
    Periodic,
    /// This number.
    Fixed(f64),
}

/// States under one name with none, one or two indices, counted from 0.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// The number of values of each index; empty for a single state.
    pub shape: Vec<usize>,
    /// The place of its first number among the states.
    pub first: usize,
    /// What lies beyond.
    pub edges: Edges,
}

/// Something an equation reads at each of its indices.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// A number of a field.
    Field(Field, Vec<Affine>),
    /// An index itself.
    Index(Affine),
}

impl Load {
    /// The place among the states at an index, or the number that stands beyond the edge.
    #[inline(always)]
    fn place(&self, outer: usize, inner: usize) -> Result<usize, f64> {
        let (field, indices) = match self {
            Self::Index(index) => return Err(index.at(outer, inner) as f64),
            Self::Field(field, indices) => (field, indices),
        };
        let mut place = 0;
        for (index, &n) in indices.iter().zip(&field.shape) {
            let at = index.at(outer, inner);
            let inside = match field.edges {
                _ if (0..n as i64).contains(&at) => at,
                Edges::Fixed(value) => return Err(value),
                _ => wrapped(at, n as i64),
            };
            place = place * n + inside as usize;
        }
        Ok(field.first + place)
    }

    /// How far ahead of another load of the same line this one reads, if both run along it.
    fn ahead(&self, other: &Self) -> Option<i64> {
        let (Self::Field(field, indices), Self::Field(others, beside)) = (self, other) else {
            return None;
        };
        let ((last, rest), (along, line)) = (indices.split_last()?, beside.split_last()?);
        let same = field.first == others.first && last.outer == along.outer && rest == line;
        let runs = last.inner == 1 && along.inner == 1 && rest.iter().all(|r| r.inner == 0);
        (same && runs).then_some(last.offset - along.offset)
    }

    /// How many of `len` indices from this one on read numbers that stand side by side, or the same number beyond the edge,
    /// and the first of them.
    #[inline(always)]
    fn run(&self, outer: usize, inner: usize, len: usize) -> (usize, Result<usize, f64>) {
        let place = self.place(outer, inner);
        let Self::Field(field, indices) = self else { return (1, place) };
        let (Some((last, rest)), Some(&n)) = (indices.split_last(), field.shape.last()) else {
            return (1, place);
        };
        if last.inner != 1 || rest.iter().any(|r| r.inner != 0) {
            return (1, place);
        }
        let (at, n) = (last.at(outer, inner), n as i64);
        let until_edge = match place {
            Ok(_) => n - wrapped(at, n),
            Err(_) if at < 0 => -at,
            Err(_) if at < n => n - at,
            Err(_) => i64::MAX,
        };
        (len.min(until_edge as usize), place)
    }
}

/// An index within 0..n, a division saved where it is no more than a turn away.
#[inline(always)]
fn wrapped(at: i64, n: i64) -> i64 {
    let near = at + if at < 0 { n } else { 0 } - if at >= n { n } else { 0 };
    if (0..n).contains(&near) { near } else { at.rem_euclid(n) }
}

/// An equation over `size` indices whose results stand side by side from `first` on.
#[derive(Clone, Debug, PartialEq)]
pub struct Stencil {
    size: [usize; 2],
    first: usize,
    loads: Vec<Load>,
    /// The loads that the equation reads in the end.
    read: Vec<usize>,
    forward: Program,
    /// Writes what goes back to each of `pulled`; its last state is the number to pull back.
    reverse: Option<Program>,
    pulled: Vec<usize>,
    /// Indices of a block of plain numbers, and all blocks of that width, if there are not too many.
    width: usize,
    blocks: Vec<Block>,
    /// Numbers that any of these gathers, at most.
    gathered: usize,
}

/// The registers of a program take about this many bytes together: few enough to stay near the processor, so many that reading an
/// instruction costs little beside doing it.
const REGISTER_BYTES: usize = 8 * 1024;

/// So many numbers need no room of the thread's: what one instruction over a short field, or over edges, gathers, or the registers of a very
/// short one.
const NEAR: usize = 64;

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// So many blocks are placed once for all, fewer if much is gathered for them.
const BLOCKS: usize = 1024;

/// A field of up to so many indices is one block, edges and all.
const NARROW: usize = 128;

impl Stencil {
    /// The equation `id` of a graph whose states are `loads`.
    pub fn compile(
        mut graph: Graph,
        id: NodeId,
        loads: Vec<Load>,
        size: [usize; 2],
        first: usize,
    ) -> Self {
        let forward = Program::compile(&graph, &[id]).fused();
        let is_field = |k: &usize| matches!(loads.get(*k), Some(Load::Field(..)));
        let read = graph.states_below(id);
        let pulled: Vec<usize> = read.iter().copied().filter(is_field).collect();
        let gradient = graph.vjp(&[id], loads.len());
        let gradient: Vec<NodeId> = pulled.iter().map(|&k| gradient[k]).collect();
        let reverse = Some(Program::compile(&graph, &gradient).fused());
        let reverse = reverse.filter(Program::is_addressable);
        let both = [Some(&forward), reverse.as_ref()];
        let registers = both.into_iter().flatten().map(|p| p.full.registers).max();
        let width = width::<f64>(registers.unwrap_or_default(), size[1]);
        let (blocks, gathered) = (Vec::new(), 0);
        let mut made =
            Self { size, first, loads, read, forward, reverse, pulled, width, blocks, gathered };
        let (mut at, mut blocks, mut gathers) = ([0, 0], Vec::new(), 0);
        while blocks.len() + gathers / 64 <= BLOCKS {
            let mut block = Block::default();
            if !made.next_block(&mut at, width, &mut block) {
                made.blocks = blocks;
                break;
            }
            gathers += block.gathers.len();
            made.gathered = made.gathered.max(block.gathers.iter().map(|(len, _)| len).sum());
            blocks.push(block);
        }
        made
    }

    /// Whether [`vjp`](Self::vjp) does anything.
    pub fn has_reverse(&self) -> bool {
        self.reverse.is_some()
    }

    /// The number of instructions for each index, forwards and backwards.
    pub fn len(&self) -> (usize, usize) {
        (self.forward.len().1, self.reverse.as_ref().map_or(0, |r| r.len().1))
    }

    /// Whether there are no indices to run over.
    pub fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// Writes the results to their places in `out`.
    #[inline(never)]
    pub fn eval<S: Scalar>(&self, x: &[S], env: &Environment<'_>, out: &mut [S]) {
        self.sweep(&self.forward, x, &[], env, &mut Forwards(out));
    }

    /// Adds the transposed Jacobian times the equation's part of `r` to `out`.
    #[inline(never)]
    pub fn vjp<S: Scalar>(&self, x: &[S], r: &[S], env: &Environment<'_>, out: &mut [S]) {
        let Some(reverse) = &self.reverse else { return };
        self.sweep(reverse, x, r, env, &mut Backwards { stencil: self, out });
    }

    /// Runs a program of this equation over all indices. Small scalars run in blocks, plain numbers in code for the
    /// widest vector unit; large ones are vectors by themselves and run one by one.
    #[inline(always)]
    fn sweep<S: Scalar>(
        &self,
        program: &Program,
        x: &[S],
        r: &[S],
        env: &Environment<'_>,
        target: &mut impl Target<S>,
    ) {
        let plain = program.plain_values(env);
        if const { size_of::<S>() == size_of::<f64>() } {
            optfilter::simd::dispatch(
                #[inline(always)]
                || self.sweep_blocks(program, x, r, &plain, target),
            );
        } else if const { size_of::<S>() <= 2 * size_of::<f64>() } {
            self.sweep_blocks(program, x, r, &plain, target);
        } else {
            self.sweep_indices(program, x, r, (&plain, env), target);
        }
    }

    /// Runs a program of this equation over all blocks.
    #[inline(always)]
    fn sweep_blocks<S: Scalar, T: Target<S>>(
        &self,
        program: &Program,
        x: &[S],
        r: &[S],
        plain: &[f64],
        target: &mut T,
    ) {
        let plain_numbers = const { size_of::<S>() == size_of::<f64>() };
        let planned = plain_numbers && !self.blocks.is_empty();
        let registers = program.full.registers;
        let width = if plain_numbers { self.width } else { width::<S>(registers, self.size[1]) };
        // One instruction alone that writes where its result belongs needs no register.
        let is_alone = T::PLACES && program.full.is_single();
        let (count, long) = if is_alone { (1, 0) } else { (registers + 1, width) };
        // Registers that are long begin where a line of the cache does: what is written across two of them takes long to be read again. Behind them
        // is room for numbers that do not stand side by side, at most those of all loads.
        let gathered = if planned { self.gathered } else { self.read.len() * width };
        let (mut near, mut far) = ([S::ZERO; NEAR], None);
        let storage = if count * long + gathered <= NEAR {
            &mut near[..]
        } else {
            let room = far.insert(Room::<S>::of(count * long + gathered + LINE));
            let begin = room.as_ptr().align_offset(LINE).min(LINE);
            &mut room[begin..]
        };
        let (storage, gathered) = storage.split_at_mut(count * long);
        let mut many: Vec<&mut [S]> = Vec::new();
        let mut few: [&mut [S]; FEW] = Default::default();
        let parts = storage.chunks_exact_mut(long.max(1));
        let registers = if count <= FEW {
            few.iter_mut().zip(parts).for_each(|(register, part)| *register = part);
            &mut few[..count]
        } else {
            many.extend(parts.take(count));
            &mut many
        };
        let (mut next, mut at, mut made) = (0, [0, 0], Block::default());
        loop {
            let block = if planned {
                next += 1;
                let Some(block) = self.blocks.get(next - 1) else { return };
                block
            } else {
                if !self.next_block(&mut at, width, &mut made) {
                    return;
                }
                &made
            };
            let mut done = 0;
            for &(len, place) in &block.gathers {
                let to = &mut gathered[done..][..len];
                match place {
                    Ok(place) => copy(&x[place..][..len], to),
                    Err(value) => to.fill(S::from_f64(value)),
                }
                done += len;
            }
            program.full.run_block(
                block,
                registers,
                plain,
                #[inline(always)]
                |k| match block.placed.get(k) {
                    None => &r[block.result..][..block.len],
                    Some(Placed::State(start)) => &x[*start..][..block.len],
                    Some(Placed::Gathered(start)) => &gathered[*start..][..block.len],
                },
                target,
            );
        }
    }

    /// Places the block that begins at an index, and moves that to the next one. False after the last.
    fn next_block(&self, at: &mut [usize; 2], width: usize, block: &mut Block) -> bool {
        let [rows, columns] = self.size;
        let [outer, inner] = *at;
        if outer >= rows || columns == 0 {
            return false;
        }
        // A long block ends where the edges begin and end to matter, so that little is gathered.
        let inside = if columns > NARROW { self.inside(outer) } else { 0..columns };
        let end = [inside.start, inside.end].into_iter().find(|end| *end > inner);
        let len = width.min(end.unwrap_or(columns).min(columns) - inner);
        (block.outer, block.inner, block.len) = (outer, inner, len);
        block.result = self.first + outer * columns + inner;
        block.placed.resize(self.loads.len(), Placed::State(0));
        block.gathers.clear();
        let mut open = Vec::new();
        for &k in &self.read {
            match self.loads[k].run(outer, inner, len) {
                (done, Ok(place)) if done == len => block.placed[k] = Placed::State(place),
                _ => open.push(k),
            }
        }
        let mut gathered = 0;
        while let Some(&first) = open.first() {
            // Neighbours are gathered once, if they are near enough for that to be less.
            let ahead = |&k: &usize| Some((k, self.loads[k].ahead(&self.loads[first])?));
            let mut group: Vec<(usize, i64)> = open.iter().filter_map(ahead).collect();
            group.sort_by_key(|(_, ahead)| *ahead);
            let spread = match group[..] {
                [(_, low), .., (_, high)] => (high - low) as usize,
                _ => 0,
            };
            if group.is_empty() || spread > (group.len() - 1) * len {
                group = vec![(first, 0)];
            }
            let (lowest, low) = group[0];
            let all = len + group.last().map_or(0, |(_, high)| (high - low) as usize);
            let mut done = 0;
            while done < all {
                let (more, place) = self.loads[lowest].run(outer, inner + done, all - done);
                block.gathers.push((more, place));
                done += more;
            }
            for &(k, ahead) in &group {
                block.placed[k] = Placed::Gathered(gathered + (ahead - low) as usize);
            }
            gathered += all;
            open.retain(|k| !group.iter().any(|(member, _)| member == k));
        }
        *at = if inner + len < columns { [outer, inner + len] } else { [outer + 1, 0] };
        true
    }

    /// The inner indices at which no load that runs along the field leaves it.
    fn inside(&self, outer: usize) -> Range<usize> {
        let (mut start, mut end) = (0, self.size[1] as i64);
        for &k in &self.read {
            if let Load::Field(field, indices) = &self.loads[k]
                && let (Some(last), Some(n)) = (indices.last(), field.shape.last())
                && last.inner == 1
            {
                let at = last.at(outer, 0);
                start = start.max(-at);
                end = end.min(*n as i64 - at);
            }
        }
        let start = start.clamp(0, self.size[1] as i64);
        start as usize..end.max(start) as usize
    }

    /// Runs a program index by index.
    fn sweep_indices<S: Scalar>(
        &self,
        program: &Program,
        x: &[S],
        r: &[S],
        (plain, env): (&[f64], &Environment<'_>),
        target: &mut impl Target<S>,
    ) {
        let mut point = vec![S::ZERO; self.loads.len() + usize::from(!r.is_empty())];
        let mut results = vec![S::ZERO; program.outputs()];
        for outer in 0..self.size[0] {
            for inner in 0..self.size[1] {
                let result = self.first + outer * self.size[1] + inner;
                for &k in &self.read {
                    let place = self.loads[k].place(outer, inner);
                    point[k] = place.map_or_else(S::from_f64, |place| x[place]);
                }
                if let Some(r) = r.get(result) {
                    point[self.loads.len()] = *r;
                }
                program.full.dispatch(&point, env, plain, &mut results);
                let block = Block { outer, inner, result, len: 1, ..Block::default() };
                for (slot, value) in results.iter().enumerate() {
                    target.take(&block, slot, std::slice::from_ref(value));
                }
            }
        }
    }
}

/// Results go to their places.
struct Forwards<'a, S>(&'a mut [S]);

impl<S: Scalar> Target<S> for Forwards<'_, S> {
    const PLACES: bool = true;

    #[inline(always)]
    fn place(&mut self, block: &Block, _slot: usize) -> Option<&mut [S]> {
        Some(&mut self.0[block.result..][..block.len])
    }

    #[inline(always)]
    fn take(&mut self, block: &Block, _slot: usize, values: &[S]) {
        self.0[block.result..][..block.len].copy_from_slice(values);
    }
}

/// What a load passes back is added where it was read.
struct Backwards<'a, S> {
    stencil: &'a Stencil,
    out: &'a mut [S],
}

impl<S: Scalar> Target<S> for Backwards<'_, S> {
    const PLACES: bool = false;

    #[inline(always)]
    fn place(&mut self, _block: &Block, _slot: usize) -> Option<&mut [S]> {
        None
    }

    #[inline(always)]
    fn take(&mut self, block: &Block, slot: usize, values: &[S]) {
        let k = self.stencil.pulled[slot];
        if let Some(Placed::State(place)) = block.placed.get(k) {
            add(&mut self.out[*place..], values);
            return;
        }
        let load = &self.stencil.loads[k];
        let mut done = 0;
        while done < values.len() {
            let (len, place) = load.run(block.outer, block.inner + done, values.len() - done);
            if let Ok(place) = place {
                add(&mut self.out[place..], &values[done..done + len]);
            }
            done += len;
        }
    }
}

/// Copies a few numbers one by one, many at once.
#[inline(always)]
fn copy<S: Scalar>(from: &[S], to: &mut [S]) {
    if let [number] = from {
        to[0] = *number;
    } else if let [one, other] = from {
        (to[0], to[1]) = (*one, *other);
    } else {
        to.copy_from_slice(from);
    }
}

/// Adds to the first numbers of `out`.
#[inline(always)]
fn add<S: Scalar>(out: &mut [S], values: &[S]) {
    for (out, v) in out[..values.len()].iter_mut().zip(values) {
        *out += *v;
    }
}

/// Indices of a block for a program of so many registers.
fn width<S>(registers: usize, columns: usize) -> usize {
    let width = (REGISTER_BYTES / size_of::<S>() / (registers + 1)) & !7;
    width.max(8).min(columns.max(1).next_multiple_of(8))
}

/// So many registers need no memory from the heap.
const FEW: usize = 16;
