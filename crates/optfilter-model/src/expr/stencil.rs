//! One equation over all indices of a field: a program, and where what it reads stands.
//!
//! ```text
//! out[i] = f(x[i + s_1], x[i + s_2], ...),          g[i + s_k] += (df/dx[i + s_k])(i) r[i]   backwards
//! ```
//!
//! The equation is compiled once, as a program whose states are its loads. It runs over blocks of consecutive
//! indices; a load of a block is a slice of the state, except at the edges of a field and for strides, where its
//! numbers are gathered one by one. Backwards, what a load passes back is added at the same places.

use super::graph::{Graph, NodeId};
use super::index::Affine;
use super::program::{Environment, Program};
use optfilter::scalar::Scalar;
use std::ops::Range;

/// What lies beyond the edges of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Edges {
    /// Nothing: no index may leave the field.
    Closed,
    /// The other edge.
    Periodic,
    /// This number.
    Fixed(f64),
}

/// States under one name with none, one or two indices, counted from 0.
#[derive(Clone, Debug, PartialEq)]
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
    #[inline]
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
                _ => at.rem_euclid(n as i64),
            };
            place = place * n + inside as usize;
        }
        Ok(field.first + place)
    }

    /// Where `len` consecutive numbers from an index on stand side by side, if they do.
    #[inline]
    fn start(&self, outer: usize, inner: usize, len: usize) -> Option<usize> {
        let Self::Field(field, indices) = self else { return None };
        let (last, rest) = indices.split_last()?;
        let n = *field.shape.last()? as i64;
        let at = last.at(outer, inner);
        let aligned = last.inner == 1 && rest.iter().all(|r| r.inner == 0);
        if aligned && at >= 0 && at + len as i64 <= n {
            self.place(outer, inner).ok()
        } else {
            None
        }
    }
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
}

/// The registers of a program take about this many bytes together: few enough to stay near the processor, so many that reading an
/// instruction costs little beside doing it.
const REGISTER_BYTES: usize = 16 * 1024;

impl Stencil {
    /// The equation `id` of a graph whose states are `loads`.
    pub fn compile(
        mut graph: Graph,
        id: NodeId,
        loads: Vec<Load>,
        size: [usize; 2],
        first: usize,
    ) -> Self {
        let forward = Program::compile(&graph, &[id]);
        let is_field = |k: &usize| matches!(loads.get(*k), Some(Load::Field(..)));
        let read = graph.states_below(id);
        let pulled: Vec<usize> = read.iter().copied().filter(is_field).collect();
        let gradient = graph.pull_back(&[id], loads.len());
        let gradient: Vec<NodeId> = pulled.iter().map(|&k| gradient[k]).collect();
        let reverse = Some(Program::compile(&graph, &gradient)).filter(Program::is_addressable);
        Self { size, first, loads, read, forward, reverse, pulled }
    }

    /// Whether [`pull_back`](Self::pull_back) does anything.
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
        self.sweep(
            &self.forward,
            x,
            &[],
            env,
            #[inline(always)]
            |block, _, values| out[block.result..][..values.len()].copy_from_slice(values),
        );
    }

    /// Adds the transposed Jacobian times the equation's part of `r` to `out`.
    #[inline(never)]
    pub fn pull_back<S: Scalar>(&self, x: &[S], r: &[S], env: &Environment<'_>, out: &mut [S]) {
        let Some(reverse) = &self.reverse else { return };
        self.sweep(
            reverse,
            x,
            r,
            env,
            #[inline(always)]
            |block, slot, values| {
                let k = self.pulled[slot];
                if let Some(start) = block.starts[k] {
                    for (out, v) in out[start..][..values.len()].iter_mut().zip(values) {
                        *out += *v;
                    }
                    return;
                }
                for (p, v) in values.iter().enumerate() {
                    if let Ok(place) = self.loads[k].place(block.outer, block.inner + p) {
                        out[place] += *v;
                    }
                }
            },
        );
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
        mut store: impl FnMut(&Block<'_>, usize, &[S]),
    ) {
        let plain = program.plain_values(env);
        if const { size_of::<S>() == size_of::<f64>() } {
            optfilter::simd::dispatch(
                #[inline(always)]
                || {
                    self.sweep_blocks(
                        program,
                        x,
                        r,
                        &plain,
                        // Not by reference, which would be called as code for any processor.
                        #[inline(always)]
                        |block, slot, values| store(block, slot, values),
                    );
                },
            );
        } else if const { size_of::<S>() <= 2 * size_of::<f64>() } {
            self.sweep_blocks(program, x, r, &plain, store);
        } else {
            self.sweep_indices(program, x, r, (&plain, env), store);
        }
    }

    /// Runs a program of this equation over all blocks.
    #[inline(always)]
    fn sweep_blocks<S: Scalar>(
        &self,
        program: &Program,
        x: &[S],
        r: &[S],
        plain: &[f64],
        mut store: impl FnMut(&Block<'_>, usize, &[S]),
    ) {
        let [rows, columns] = self.size;
        let registers = program.full.registers + 1;
        let width = (REGISTER_BYTES / size_of::<S>() / registers) & !7;
        let width = width.max(8).min(columns.max(1));
        let mut starts = vec![None; self.loads.len()];
        // Numbers that do not stand side by side, and where those of each load begin.
        let (mut gathered, mut offsets) = (Vec::new(), vec![0; self.loads.len()]);
        let mut storage = vec![S::ZERO; registers * width];
        let mut registers: Vec<&mut [S]> = storage.chunks_exact_mut(width).collect();
        for outer in 0..rows {
            let inside = self.inside(outer);
            let mut inner = 0;
            while inner < columns {
                // A block ends where the edges begin and end to matter, so that few numbers are gathered.
                let end = [inside.start, inside.end, columns].into_iter().find(|end| *end > inner);
                let len = width.min(end.unwrap_or(columns) - inner);
                gathered.clear();
                for &k in &self.read {
                    let load = &self.loads[k];
                    starts[k] = load.start(outer, inner, len);
                    if starts[k].is_none() {
                        offsets[k] = gathered.len();
                        gathered.extend((inner..inner + len).map(|p| match load.place(outer, p) {
                            Ok(place) => x[place],
                            Err(value) => S::from_f64(value),
                        }));
                    }
                }
                let result = self.first + outer * columns + inner;
                let block = Block { outer, inner, result, starts: &starts };
                program.full.run_block(
                    len,
                    &mut registers,
                    plain,
                    #[inline(always)]
                    |k| match starts.get(k) {
                        None => &r[result..][..len],
                        Some(Some(start)) => &x[*start..][..len],
                        Some(None) => &gathered[offsets[k]..][..len],
                    },
                    #[inline(always)]
                    |slot, values| store(&block, slot, values),
                );
                inner += len;
            }
        }
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
        mut store: impl FnMut(&Block<'_>, usize, &[S]),
    ) {
        let mut starts = vec![None; self.loads.len()];
        let mut point = vec![S::ZERO; self.loads.len() + usize::from(!r.is_empty())];
        let mut results = vec![S::ZERO; program.outputs()];
        for outer in 0..self.size[0] {
            for inner in 0..self.size[1] {
                let result = self.first + outer * self.size[1] + inner;
                for &k in &self.read {
                    let place = self.loads[k].place(outer, inner);
                    point[k] = place.map_or_else(S::from_f64, |place| x[place]);
                    starts[k] = place.ok();
                }
                if let Some(r) = r.get(result) {
                    point[self.loads.len()] = *r;
                }
                program.full.dispatch(&point, env, plain, &mut results);
                let block = Block { outer, inner, result, starts: &starts };
                for (slot, value) in results.iter().enumerate() {
                    store(&block, slot, std::slice::from_ref(value));
                }
            }
        }
    }
}

/// Consecutive indices, and where their numbers stand.
struct Block<'a> {
    outer: usize,
    inner: usize,
    /// The place of the first result.
    result: usize,
    /// The place of the first number of each load, where they stand side by side.
    starts: &'a [Option<usize>],
}
