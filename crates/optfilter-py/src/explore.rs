//! The live page, for as long as Python holds it.

use crate::errors::bad;
use optfilter_explore::{Api, Fault, Named, Opening, Server, Shelf, Table};
use optfilter_model::{FilterSpec, ModelSpec};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// A page that is being served.
#[pyclass(module = "optfilter._core", frozen)]
pub(crate) struct CorePage {
    server: Mutex<Option<Server>>,
}

#[pymethods]
impl CorePage {
    /// Serves a page on this machine; `given` is a model's text and name, its filter as JSON (or nothing), and a table as CSV.
    #[new]
    #[pyo3(signature = (given, port))]
    fn new(
        py: Python<'_>,
        given: Option<(String, String, Option<String>, Vec<u8>)>,
        port: u16,
    ) -> PyResult<Self> {
        let made = py.detach(|| -> Result<_, Fault> {
            let Some((model, name, filter, bytes)) = given else { return Ok(None) };
            let spec = ModelSpec::parse(&name, &model)?;
            let filter: FilterSpec = match filter {
                Some(text) => serde_json::from_str(&text)
                    .map_err(|e| Fault::Filter("", format!("these are no settings: {e}")))?,
                None => spec.filter.clone(),
            };
            let filter = spec.fitted(&filter)?;
            let named = Named { model: model.clone(), name: name.clone(), table: "given".into() };
            let table = || Table { name: "data.csv".into(), bytes: bytes.clone() };
            // What is wrong with them is said now, not in the page.
            Shelf::new(Some(table())).subject(&named)?;
            spec.runner(&filter)?;
            Ok(Some((Opening { model, name, filter }, table())))
        });
        let given = made.map_err(|fault| match fault {
            Fault::Filter(key, message) if !key.is_empty() => bad(key, message),
            fault => PyValueError::new_err(fault.to_string()),
        })?;
        let server = py
            .detach(|| Server::start(Api::new(given, None), port, true))
            .map_err(|e| PyOSError::new_err(format!("port {port}: {e}")))?;
        Ok(Self { server: Mutex::new(Some(server)) })
    }

    /// Where the page is; nothing once it is closed.
    fn address(&self) -> Option<String> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(Server::address)
    }

    /// Ends it.
    fn close(&self, py: Python<'_>) {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(server));
    }
}
