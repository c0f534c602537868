//! From a checked model file to programs: names become states, inputs, constants and shared parts.

use crate::diagnostic::closest;
use crate::expr::{Ast, Graph, NodeId, Program};
use crate::file::{Equation, LikelihoodKind, ModelSpec, Time};
use crate::model::TextModel;

/// Names with a fixed meaning in expressions.
pub(crate) const RESERVED: [&str; 6] = ["t", "dt", "k", "pi", "e", "inf"];

/// What the names in an expression stand for.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'a> {
    parameters: &'a [(String, f64)],
    states: &'a [String],
    inputs: &'a [String],
    definitions: Vec<(&'a str, &'a Ast)>,
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
            inputs: &[],
            definitions: Vec::new(),
            dynamic: false,
            rate: false,
        }
    }

    pub(crate) fn with_states(mut self, states: &'a [String]) -> Self {
        self.states = states;
        self.dynamic = true;
        self
    }

    pub(crate) fn with_inputs(mut self, inputs: &'a [String]) -> Self {
        self.inputs = inputs;
        self
    }

    pub(crate) fn add_definitions<N: Named>(&mut self, definitions: &'a [(N, Equation)]) {
        self.definitions.extend(definitions.iter().map(|(n, q)| (n.name(), &q.ast)));
    }

    /// The same names for an expression that is, or is not, a rate of change.
    pub(crate) fn inside_rate(mut self, rate: bool) -> Self {
        self.rate = rate;
        self
    }

    /// The meaning of names within one graph.
    pub(crate) fn within(&self, graph: &mut Graph) -> Lookup<'a, '_> {
        let mut lookup = Lookup { scope: self, definitions: Vec::new() };
        for (name, ast) in &self.definitions {
            // Only earlier definitions are visible, so there are no circles; each is lowered once.
            let id = graph
                .lower(ast, &mut |g, name| lookup.find(g, name))
                .map_err(|e| (format!("in `{name}`: {}", e.message), e.help));
            lookup.definitions.push(id);
        }
        lookup
    }

    fn names(&self) -> Vec<&str> {
        let own = self.states.iter().chain(self.inputs).map(String::as_str);
        let mut names: Vec<&str> = own.collect();
        names.extend(self.definitions.iter().map(|d| d.0));
        names.extend(self.parameters.iter().map(|p| p.0.as_str()));
        names.truncate(24);
        names
    }
}

/// A node, or what is wrong with a name and what to do about it.
type Found = Result<NodeId, (String, Option<String>)>;

/// What names stand for in a graph that holds the definitions already.
pub(crate) struct Lookup<'a, 's> {
    scope: &'s Scope<'a>,
    definitions: Vec<Found>,
}

impl Lookup<'_, '_> {
    /// The node that a name stands for.
    pub(crate) fn find(&self, graph: &mut Graph, name: &str) -> Found {
        let scope = self.scope;
        if let Some((_, value)) = scope.parameters.iter().find(|(n, _)| n == name) {
            return Ok(graph.constant(*value));
        }
        if let Some(i) = scope.states.iter().position(|n| n == name) {
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
        let mut scope =
            Scope::constants(&self.parameters).with_states(&self.states).with_inputs(&self.inputs);
        scope.add_definitions(&self.definitions);
        let rate = scope.clone().inside_rate(self.time != Time::Discrete);
        let lower = |equations: &[Equation], scope: &Scope<'_>| {
            let mut graph = Graph::new();
            let names = scope.within(&mut graph);
            let ids: Vec<NodeId> = equations
                .iter()
                .map(|q| {
                    // A spec has passed these same steps when it was read; should its equations have
                    // been changed since, what no longer has a meaning is not a number.
                    graph
                        .lower(&q.ast, &mut |g, name| names.find(g, name))
                        .unwrap_or_else(|_| graph.constant(f64::NAN))
                })
                .collect();
            (graph, ids)
        };
        let dynamics = lower(&self.dynamics, &rate);
        let (mut graph, mut ids) = lower(&self.observation, &scope);
        // A link is part of the equation here, so that for every filter the observation is the expected
        // measurement, and an innovation is what its name says; likelihoods may ask for what is linked.
        let canonical = ids.clone();
        for (id, likelihood) in ids.iter_mut().zip(&self.likelihoods) {
            match likelihood {
                LikelihoodKind::Poisson { log_link: true } => *id = graph.exp(*id),
                LikelihoodKind::Bernoulli { logit_link: true } => *id = graph.logistic(*id),
                _ => {}
            }
        }
        let linked = ids.iter().zip(&canonical).map(|(id, plain)| id != plain).collect();
        let canonical = Program::compile(&graph, &canonical);
        TextModel::new(self, dynamics, (graph, ids), (canonical, linked))
    }
}
