//! The Python module `pq_sampler`.

use crate::block::{Block, Failure, Nothing, Scale};
use crate::i2c::I2c;
use crate::model::Model;
use crate::pace::Pace;
use crate::registers::Registers;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pyclass(name = "Model", module = "pq_sampler")]
struct PyModel(Model);

#[pymethods]
impl PyModel {
    #[new]
    fn new(shunt_ohm: f64, noise: Vec<f64>) -> PyResult<Self> {
        if noise.is_empty() || noise.len() % 2 == 1 {
            return Err(PyValueError::new_err(
                "two numbers of noise a conversion: an even count",
            ));
        }
        Ok(Self(Model::new(shunt_ohm, noise)))
    }

    #[pyo3(signature = (now_ns))]
    fn hold(&mut self, now_ns: Option<i64>) {
        self.0.hold(now_ns);
    }

    #[getter]
    fn conversions(&self) -> u64 {
        self.0.conversions
    }

    fn read(&mut self, register: u8) -> PyResult<u16> {
        Ok(self.0.read(register)?)
    }

    fn write(&mut self, register: u8, word: u16) {
        self.0.write(register, word);
    }
}

#[pyclass(name = "I2c", module = "pq_sampler")]
struct PyI2c(I2c);

#[pymethods]
impl PyI2c {
    #[new]
    fn new(path: &str, address: u16) -> PyResult<Self> {
        Ok(Self(I2c::open(path, address)?))
    }

    fn read(&mut self, register: u8) -> PyResult<u16> {
        Ok(self.0.read(register)?)
    }
}

#[pyclass(name = "Scale", frozen, module = "pq_sampler")]
struct PyScale(Scale);

#[pymethods]
impl PyScale {
    #[new]
    fn new(shunt_ohm: f64, shunt_range_mv: i32, current: (f64, f64), voltage: (f64, f64)) -> Self {
        Self(Scale {
            shunt_ohm,
            full_scale: shunt_range_mv * 100,
            current,
            voltage,
        })
    }
}

#[pyclass(name = "Failure", frozen, get_all, module = "pq_sampler")]
struct PyFailure {
    index: i64,
    now_ns: i64,
    lateness_ns: i64,
    errno: i32,
}

impl From<Failure> for PyFailure {
    fn from(failure: Failure) -> Self {
        Self {
            index: failure.index,
            now_ns: failure.now_ns,
            lateness_ns: failure.lateness_ns,
            errno: failure.errno,
        }
    }
}

#[pyclass(name = "Block", frozen, get_all, module = "pq_sampler")]
struct PyBlock {
    next_index: i64,
    got_count: u64,
    late_count: u64,
    lost_count: u64,
    stored_count: u64,
    stale_count: u64,
    within_half_ms_count: u64,
    clipped_count: u64,
    volts: f64,
    amps: f64,
    watts: f64,
    records: Py<PyBytes>,
    failure: Option<Py<PyFailure>>,
}

#[pyclass(name = "Pace", frozen, module = "pq_sampler")]
struct PyPace(Pace);

#[pymethods]
impl PyPace {
    #[new]
    fn new(start_ns: i64, period_ns: i64) -> PyResult<Self> {
        if period_ns <= 0 {
            return Err(PyValueError::new_err("period_ns must be positive"));
        }
        Ok(Self(Pace::new(start_ns, period_ns)?))
    }

    fn block(
        &self,
        py: Python<'_>,
        bus: &Bound<'_, PyAny>,
        scale: Option<&Bound<'_, PyScale>>,
        from_index: i64,
        end_index: i64,
    ) -> PyResult<PyBlock> {
        let none = Scale::none();
        let scale = scale.map_or(&none, |given| &given.get().0);
        let taken = if bus.is_none() {
            py.detach(|| Block::take(&self.0, &mut Nothing, scale, from_index, end_index))
        } else if let Ok(model) = bus.cast::<PyModel>() {
            let chip = &mut model.borrow_mut().0;
            py.detach(|| Block::take(&self.0, chip, scale, from_index, end_index))
        } else if let Ok(i2c) = bus.cast::<PyI2c>() {
            let chip = &mut i2c.borrow_mut().0;
            py.detach(|| Block::take(&self.0, chip, scale, from_index, end_index))
        } else {
            return Err(PyTypeError::new_err("bus: a Model or an I2c"));
        }?;
        let failure = match taken.failure {
            Some(failure) => Some(Py::new(py, PyFailure::from(failure))?),
            None => None,
        };
        Ok(PyBlock {
            next_index: taken.next_index,
            got_count: taken.got,
            late_count: taken.late,
            lost_count: taken.lost,
            stored_count: taken.stored,
            stale_count: taken.stale,
            within_half_ms_count: taken.within_half_ms,
            clipped_count: taken.clipped,
            volts: taken.volts,
            amps: taken.amps,
            watts: taken.watts,
            records: PyBytes::new(py, &taken.records).unbind(),
            failure,
        })
    }
}

/// The power sampler's inner loop.
#[pymodule]
fn pq_sampler(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<PyModel>()?;
    module.add_class::<PyI2c>()?;
    module.add_class::<PyScale>()?;
    module.add_class::<PyFailure>()?;
    module.add_class::<PyBlock>()?;
    module.add_class::<PyPace>()
}
