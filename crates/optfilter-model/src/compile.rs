//! From a checked model file to programs: names become states, inputs, constants and shared parts.

use crate::diagnostic::closest;
use crate::expr::{Affine, Edges, Field, Found, Graph, Load, Names, NodeId, Program, Stencil};
use crate::file::{Equation, LikelihoodKind, ModelSpec, NoiseLaw, Time};
use crate::made::{self, Made};
use crate::model::{Compiled, Equations, Laws, TextModel};
use std::collections::HashMap;
use std::sync::Arc;

/// Names with a fixed meaning in expressions.
pub(crate) const RESERVED: [&str; 6] = ["t", "dt", "k", "pi", "e", "inf"];

/// What the names in an expression stand for.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    parameters: &'a [(String, f64)],
    states: &'a [String],
    /// The states once more where some have indices; else nothing.
    fields: &'a [Field],
    inputs: &'a [String],
    definitions: Vec<(&'a str, &'a Equation)>,
    /// Whether names that change in time (states, t) are known at all.
    dynamic: bool,
    /// Whether the expression is a rate of change, which has no step to speak of.
    rate: bool,
}

/// Anything with a name and an equation.
pub(crate) trait Named {
    fn name(&self) -> &str;
}

impl Named for String {
    fn name(&self) -> &str {
        self
    }
}

impl<'a> Scope<'a> {
    /// Constants and parameters only.
    pub(crate) fn constants(parameters: &'a [(String, f64)]) -> Self {
        Self {
            parameters,
            states: &[],
            fields: &[],
            inputs: &[],
            definitions: Vec::new(),
            dynamic: false,
            rate: false,
        }
    }

    pub(crate) fn with_states(mut self, states: &'a [String], fields: &'a [Field]) -> Self {
        self.states = states;
        self.fields = fields;
        self.dynamic = true;
        self
    }

    pub(crate) fn with_inputs(mut self, inputs: &'a [String]) -> Self {
        self.inputs = inputs;
        self
    }

    pub(crate) fn add_definitions<N: Named>(&mut self, definitions: &'a [(N, Equation)]) {
        self.definitions.extend(definitions.iter().map(|(n, q)| (n.name(), q)));
    }

    /// The same names for an expression that is, or is not, a rate of change.
    pub(crate) fn inside_rate(mut self, rate: bool) -> Self {
        self.rate = rate;
        self
    }

    /// The meaning of names within one graph, for an equation over these indices.
    pub(crate) fn within<'s>(
        &'s self,
        graph: &mut Graph,
        over: &[(String, usize)],
    ) -> Lookup<'a, 's> {
        let indices = over.iter().enumerate();
        let bindings = indices.map(|(p, (name, _))| (name.clone(), Affine::index(p, over.len())));
        let mut lookup = Lookup {
            scope: self,
            definitions: Vec::new(),
            bindings: Vec::new(),
            size: size(over),
            loads: Vec::new(),
            elements: HashMap::new(),
        };
        for (name, equation) in &self.definitions {
            // Only earlier definitions are visible, so there are no circles; each is lowered once. Those over
            // an index are lowered where they are used.
            let id = match equation.over.len() {
                0 => graph.lower(&equation.ast, &mut lookup).map_err(|e| inside(name, e)),
                rank => Err((format!("`{name}` is written with {}", count(rank)), None)),
            };
            lookup.definitions.push(id);
        }
        lookup.bindings = bindings.collect();
        lookup
    }

    fn names(&self) -> Vec<&str> {
        let states = self.states.iter().filter(|_| self.fields.is_empty());
        let mut names: Vec<&str> = self.fields.iter().map(|f| f.name.as_str()).collect();
        names.extend(states.chain(self.inputs).map(String::as_str));
        names.extend(self.definitions.iter().map(|d| d.0));
        names.extend(self.parameters.iter().map(|p| p.0.as_str()));
        names.truncate(24);
        names
    }
}

/// The size of what is computed over some indices, outer and inner.
pub(crate) fn size(over: &[(String, usize)]) -> [usize; 2] {
    match over {
        [] => [1, 1],
        [(_, n)] => [1, *n],
        [(_, m), (_, n), ..] => [*m, *n],
    }
}

pub(crate) fn count(indices: usize) -> String {
    match indices {
        0 => "no index".into(),
        1 => "one index".into(),
        n => format!("{n} indices"),
    }
}

/// An error inside a definition, where it is used.
fn inside(name: &str, error: crate::expr::SyntaxError) -> (String, Option<String>) {
    (format!("in `{name}`: {}", error.message), error.help)
}

/// What names stand for in a graph that holds the definitions already.
pub(crate) struct Lookup<'a, 's> {
    scope: &'s Scope<'a>,
    definitions: Vec<Found>,
    /// What the names of indices stand for.
    bindings: Vec<(String, Affine)>,
    size: [usize; 2],
    /// What the states of the graph are, where there are fields.
    pub(crate) loads: Vec<Load>,
    /// Definitions over an index that are in the graph already.
    elements: HashMap<(usize, Vec<Affine>), Found>,
}

impl Names for Lookup<'_, '_> {
    fn index(&self, name: &str) -> Option<Affine> {
        self.bindings.iter().find(|(n, _)| n == name).map(|(_, index)| *index)
    }

    fn find(&mut self, graph: &mut Graph, name: &str, indices: &[Affine]) -> Found {
        if let Some(i) = self.scope.fields.iter().position(|f| f.name == name) {
            return self.element(graph, &self.scope.fields[i], indices);
        }
        let known = &self.scope.definitions[..self.definitions.len()];
        let definition = known.iter().position(|(n, _)| *n == name);
        match (definition, self.index(name), indices) {
            (Some(at), _, [_, ..]) => self.defined_element(graph, at, indices),
            (_, Some(index), []) => Ok(self.load(graph, Load::Index(index))),
            (None, _, [_, ..]) => self.plain(graph, name).and_then(|_| {
                let help = format!("a field is listed with its size: states = [\"{name}[40]\"]");
                Err((format!("`{name}` is not a field"), Some(help)))
            }),
            _ => self.plain(graph, name),
        }
    }
}

impl Lookup<'_, '_> {
    /// The state of the graph that stands for a load.
    fn load(&mut self, graph: &mut Graph, load: Load) -> NodeId {
        let at = self.loads.iter().position(|l| *l == load).unwrap_or_else(|| {
            self.loads.push(load);
            self.loads.len() - 1
        });
        graph.state(at)
    }

    /// A number of a field.
    fn element(&mut self, graph: &mut Graph, field: &Field, indices: &[Affine]) -> Found {
        let (name, rank) = (&field.name, field.shape.len());
        if indices.len() != rank {
            let message = format!("`{name}` has {}, not {}", count(rank), indices.len());
            let example = ["i", "j"][..rank.min(2)].join(", ");
            return Err((message, (rank > 0).then(|| format!("write `{name}[{example}]`"))));
        }
        for (index, &n) in indices.iter().zip(&field.shape) {
            let (least, greatest) = index.range(self.size);
            let fixed = index.number().is_some();
            let outside = [least, greatest].into_iter().find(|v| !(0..n as i64).contains(v));
            // A definition over an index is read before it is known over how many.
            if let Some(v) = outside
                && (field.edges == Edges::Closed || fixed)
                && !self.size.contains(&0)
            {
                let message =
                    format!("the index {v} lies outside of `{name}`, which has 0 to {}", n - 1);
                let help =
                    format!("say what lies beyond: [fields] {name} = {{ edges = \"periodic\" }}");
                return Err((message, (!fixed).then_some(help)));
            }
        }
        Ok(self.load(graph, Load::Field(field.clone(), indices.to_vec())))
    }

    /// A definition over an index, at an index.
    fn defined_element(&mut self, graph: &mut Graph, at: usize, indices: &[Affine]) -> Found {
        let (name, equation) = self.scope.definitions[at];
        if equation.over.len() != indices.len() {
            let message =
                format!("`{name}` has {}, not {}", count(equation.over.len()), indices.len());
            return Err((message, None));
        }
        let key = (at, indices.to_vec());
        if let Some(found) = self.elements.get(&key) {
            return found.clone();
        }
        let own = equation.over.iter().map(|(n, _)| n.clone()).zip(indices.iter().copied());
        let outer = std::mem::replace(&mut self.bindings, own.collect());
        let found = graph.lower(&equation.ast, self).map_err(|e| inside(name, e));
        self.bindings = outer;
        self.elements.insert(key, found.clone());
        found
    }

    /// The node of a name without indices.
    fn plain(&mut self, graph: &mut Graph, name: &str) -> Found {
        let scope = self.scope;
        if let Some((_, value)) = scope.parameters.iter().find(|(n, _)| n == name) {
            return Ok(graph.constant(*value));
        }
        if scope.fields.is_empty()
            && let Some(i) = scope.states.iter().position(|n| n == name)
        {
            return Ok(graph.state(i));
        }
        if let Some(i) = scope.inputs.iter().position(|n| n == name) {
            return Ok(graph.input(i));
        }
        let known = scope.definitions.iter().take(self.definitions.len());
        if let Some(at) = known.into_iter().position(|(n, _)| *n == name) {
            return self.definitions[at].clone();
        }
        match name {
            "pi" => Ok(graph.constant(std::f64::consts::PI)),
            "e" => Ok(graph.constant(std::f64::consts::E)),
            "inf" => Ok(graph.constant(f64::INFINITY)),
            "t" if scope.dynamic => Ok(graph.time()),
            "dt" | "k" if scope.dynamic && scope.rate => Err((
                format!("`{name}` has no meaning in a rate of change"),
                Some("a differential equation knows only the time t".into()),
            )),
            "dt" if scope.dynamic => Ok(graph.interval()),
            "k" if scope.dynamic => Ok(graph.step_index()),
            _ => {
                let known = scope.names();
                let help = closest(name, known.iter().copied())
                    .map(|near| format!("did you mean `{near}`?"))
                    .or_else(|| {
                        (!known.is_empty()).then(|| format!("known: {}", known.join(", ")))
                    });
                Err((format!("unknown name `{name}`"), help))
            }
        }
    }
}

impl ModelSpec {
    /// Compiles the equations.
    pub fn compile(&self) -> TextModel {
        made::count(Made::Model);
        let mut scope = Scope::constants(&self.parameters)
            .with_states(&self.states, &self.fields)
            .with_inputs(&self.inputs);
        scope.add_definitions(&self.definitions);
        let rate = scope.clone().inside_rate(self.time != Time::Discrete);
        // A link is part of the equation here, so that for every filter the observation is the expected
        // measurement, and an innovation is what its name says; likelihoods may ask for what is linked.
        let link = |graph: &mut Graph, id: NodeId, place: usize| match self.likelihoods.get(place) {
            Some(LikelihoodKind::Poisson { log_link: true }) => graph.exp(id),
            Some(LikelihoodKind::Bernoulli { logit_link: true }) => graph.logistic(id),
            _ => id,
        };
        let linked: Vec<bool> = (self.likelihoods.iter())
            .map(|kind| {
                use LikelihoodKind::{Bernoulli, Poisson};
                matches!(kind, Poisson { log_link: true } | Bernoulli { logit_link: true })
            })
            .collect();
        let canonical = linked.contains(&true).then(|| {
            let made = match self.fields.is_empty() {
                true => self.listed(&self.observation, &scope, |_, id, _| id),
                false => stencils(&self.observation, &scope, |_, id, _| id),
            };
            Arc::new((made.equations, linked))
        });
        let (dynamics, observation) = if self.fields.is_empty() {
            (
                self.listed(&self.dynamics, &rate, |_, id, _| id),
                self.listed(&self.observation, &scope, link),
            )
        } else {
            (
                stencils(&self.dynamics, &rate, |_, id, _| id),
                stencils(&self.observation, &scope, link),
            )
        };
        let laws = [&self.process_laws, &self.measurement_laws].map(|laws| Laws::new(laws, &scope));
        TextModel::new(self, dynamics, observation, canonical, laws)
    }

    /// Equations without indices, as one program.
    fn listed(
        &self,
        equations: &[Equation],
        scope: &Scope<'_>,
        link: impl Fn(&mut Graph, NodeId, usize) -> NodeId,
    ) -> Compiled {
        let mut graph = Graph::new();
        let mut names = scope.within(&mut graph, &[]);
        let outputs: Vec<NodeId> = equations
            .iter()
            .enumerate()
            .map(|(place, q)| {
                let id = lowered(&mut graph, q, &mut names);
                link(&mut graph, id, place)
            })
            .collect();
        Compiled {
            linear: outputs.iter().all(|&id| graph.is_affine(id, |_| true)),
            time_invariant: outputs.iter().all(|&id| graph.is_time_invariant(id, false)),
            row_invariant: outputs.iter().all(|&id| graph.is_time_invariant(id, true)),
            reads_interval: outputs.iter().any(|&id| graph.reads_interval(id)),
            still: outputs.iter().enumerate().all(|(i, &id)| graph.is_state(id, i)),
            equations: Equations::Listed {
                forward: Program::compile(&graph, &outputs),
                reverse: Program::compile_pull_back(graph, &outputs, self.states.len()),
            },
        }
    }
}

impl Laws {
    /// The laws of noise as one program; `None` where there are none.
    fn new(laws: &[NoiseLaw], scope: &Scope<'_>) -> Option<Arc<Self>> {
        let mut graph = Graph::new();
        // They read no state and no definition, which may read one.
        let plain = Scope { definitions: Vec::new(), ..scope.clone() };
        let mut names = plain.within(&mut graph, &[]);
        let outputs: Vec<NodeId> =
            laws.iter().map(|law| lowered(&mut graph, &law.equation, &mut names)).collect();
        let of = laws.iter().map(|law| (law.place, law.squared)).collect();
        (!laws.is_empty())
            .then(|| Arc::new(Self { program: Program::compile(&graph, &outputs), of }))
    }
}

/// Equations over the indices of fields, as a program each.
fn stencils(
    equations: &[Equation],
    scope: &Scope<'_>,
    link: impl Fn(&mut Graph, NodeId, usize) -> NodeId,
) -> Compiled {
    let (mut first, mut made) = (0, Vec::new());
    let (mut linear, mut reads_interval, mut reads_row) = (true, false, false);
    for q in equations {
        let mut graph = Graph::new();
        let mut names = scope.within(&mut graph, &q.over);
        let id = lowered(&mut graph, q, &mut names);
        let id = link(&mut graph, id, first);
        let loads = names.loads;
        // An index is a factor like any number.
        linear &= graph.is_affine(id, |k| matches!(loads.get(k), Some(Load::Field(..))));
        reads_interval |= graph.reads_interval(id);
        reads_row |= graph.reads_row(id);
        let size = size(&q.over);
        made.push(Stencil::compile(graph, id, loads, size, first));
        first += size[0] * size[1];
    }
    let equations = Equations::Fields(made);
    let row_invariant = linear && !reads_row;
    Compiled {
        equations,
        linear,
        time_invariant: false,
        row_invariant,
        reads_interval,
        still: false,
    }
}

/// The node of an equation. A spec has passed these same steps when it was read; should its equations have been
/// changed since, what no longer has a meaning is not a number.
fn lowered(graph: &mut Graph, equation: &Equation, names: &mut Lookup<'_, '_>) -> NodeId {
    graph.lower(&equation.ast, names).unwrap_or_else(|_| graph.constant(f64::NAN))
}
