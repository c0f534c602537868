//! Numbers and arrays between NumPy and the library, with errors that name the argument.

use crate::errors::bad;
use nalgebra::DMatrix;
use numpy::{
    PyArray, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyType};

/// `numpy.asarray(object, dtype=float)`, C-contiguous; a view where the array already is that.
pub(crate) fn as_array<'py>(
    argument: &str,
    object: &Bound<'py, PyAny>,
) -> PyResult<PyReadonlyArrayDyn<'py, f64>> {
    if let Ok(array) = object.cast::<PyArrayDyn<f64>>()
        && array.is_c_contiguous()
    {
        return array.try_readonly().map_err(|e| bad(argument, e));
    }
    static CONVERT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let convert = CONVERT.import(py, "optfilter._arrays", "to_float_array")?;
    let array = convert.call1((argument, object))?;
    let array = array.cast_into::<PyArrayDyn<f64>>().map_err(|e| bad(argument, e))?;
    array.try_readonly().map_err(|e| bad(argument, e))
}

/// The numbers of a contiguous array.
pub(crate) fn slice<'a>(
    argument: &str,
    array: &'a PyReadonlyArrayDyn<'_, f64>,
) -> PyResult<&'a [f64]> {
    array.as_slice().map_err(|e| bad(argument, e))
}

/// A vector of `expected` numbers written to `out`; `None` means all missing (NaN).
#[inline]
pub(crate) fn fill_vector(
    argument: &str,
    object: Option<&Bound<'_, PyAny>>,
    out: &mut [f64],
) -> PyResult<()> {
    let Some(object) = object else {
        out.fill(f64::NAN);
        return Ok(());
    };
    if let Ok(number) = object.cast::<PyFloat>() {
        return fill_from(argument, &[number.value()], out);
    }
    if let Ok(array) = object.cast_exact::<PyArray1<f64>>()
        && let Ok(values) = array.try_readonly()
        && let Ok(values) = values.as_slice()
    {
        return fill_from(argument, values, out);
    }
    let array = as_array(argument, object)?;
    if array.ndim() > 1 && array.shape().iter().filter(|&&d| d != 1).count() > 1 {
        let shape = array.shape();
        return Err(bad(argument, format!("a vector is needed, not an array of shape {shape:?}")));
    }
    fill_from(argument, slice(argument, &array)?, out)
}

#[inline]
fn fill_from(argument: &str, values: &[f64], out: &mut [f64]) -> PyResult<()> {
    if values.len() != out.len() {
        let (needed, given) = (out.len(), values.len());
        return Err(bad(argument, format!("{needed} numbers are needed, {given} were given")));
    }
    out.copy_from_slice(values);
    Ok(())
}

/// A matrix of the given size (row by row in NumPy).
pub(crate) fn matrix(
    argument: &str,
    object: &Bound<'_, PyAny>,
    shape: Option<(usize, usize)>,
) -> PyResult<DMatrix<f64>> {
    let array = as_array(argument, object)?;
    let &[rows, columns] = array.shape() else {
        let found = array.shape();
        return Err(bad(argument, format!("a matrix is needed, not an array of shape {found:?}")));
    };
    if let Some((r, c)) = shape
        && (rows, columns) != (r, c)
    {
        let message = format!("a {r} x {c} matrix is needed, not {rows} x {columns}");
        return Err(bad(argument, message));
    }
    Ok(DMatrix::from_row_slice(rows, columns, slice(argument, &array)?))
}

/// A NumPy array that takes over the numbers, without a copy.
pub(crate) fn array<'py, const D: usize>(
    py: Python<'py>,
    values: Vec<f64>,
    shape: [usize; D],
) -> PyResult<Bound<'py, PyAny>> {
    let flat = PyArray::from_vec(py, values);
    Ok(flat.reshape(shape.to_vec())?.into_any())
}

/// The same, read-only: of what is a copy, an entry that is assigned would be lost without a word.
pub(crate) fn fixed_array<'py, const D: usize>(
    py: Python<'py>,
    values: Vec<f64>,
    shape: [usize; D],
) -> PyResult<Bound<'py, PyAny>> {
    let made = PyArray::from_vec(py, values).reshape(shape.to_vec())?;
    made.try_readwrite().map_err(|e| bad("array", e))?.make_nonwriteable();
    Ok(made.into_any())
}

/// A symmetric or general matrix as a NumPy array.
pub(crate) fn array_of_matrix<'py>(
    py: Python<'py>,
    matrix: &DMatrix<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = matrix.transpose().as_slice().to_vec();
    array(py, rows, [matrix.nrows(), matrix.ncols()])
}

/// Raises `MemoryError` if so many numbers cannot be had: a failed allocation would end the process.
pub(crate) fn check_memory(shape: &[usize]) -> PyResult<()> {
    const LARGE: usize = 1 << 21;
    let size = shape.iter().try_fold(1usize, |a, &b| a.checked_mul(b)).unwrap_or(usize::MAX);
    if size > LARGE && Vec::<f64>::new().try_reserve_exact(size).is_err() {
        let message = format!("an array of shape {shape:?} does not fit into memory");
        return Err(PyMemoryError::new_err(message));
    }
    Ok(())
}

/// Whether an object is a type; used to tell classes from instances in messages.
pub(crate) fn type_name(object: &Bound<'_, PyAny>) -> String {
    let class: Bound<'_, PyType> = object.get_type();
    class.name().map_or_else(|_| "object".into(), |name| name.to_string())
}
