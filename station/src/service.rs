//! Between the service manager and the supervisor.

use crate::config::Config;
use crate::journal::Journal;
use crate::raw;
use crate::supervise::{supervise, Event, State, STEP};
use crate::world::Station;
use crate::{EXIT_ENVIRONMENT, EXIT_USAGE};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{register, ServiceControlHandlerResult, ServiceStatusHandle};

/// What the manager is told to wait for the next word.
const HINT: Duration = Duration::from_secs(5);

/// Name and settings, from the command line to the thread that the manager starts.
static GIVEN: OnceLock<(String, PathBuf)> = OnceLock::new();
/// Where a stop goes, of the manager and of the console alike.
static STOP: Mutex<Option<Sender<Event>>> = Mutex::new(None);

fn stop() {
    if let Some(sender) = STOP.lock().ok().as_deref().and_then(Option::as_ref) {
        // The supervisor has ended already when nobody listens.
        let _ = sender.send(Event::Stop);
    }
}

fn ignore() {}

/// `pq-station run CONFIG`: in the foreground, until Ctrl-C.
///
/// # Errors
/// One line.
pub fn foreground(path: &Path) -> Result<(), String> {
    let config = Config::load(path)?;
    raw::on_control(stop).map_err(|error| format!("Ctrl-C cannot be heard: {error}; next: try another console"))?;
    serve(&config, true, |_| ())
}

/// `pq-station service NAME CONFIG`: what the service manager starts. Returns the exit code.
///
/// # Errors
/// One line, when the manager did not start this process.
pub fn background(name: &str, path: &Path) -> Result<(), (i32, String)> {
    GIVEN.get_or_init(|| (name.to_owned(), path.to_owned()));
    raw::dispatch(name).map_err(|error| {
        let why = cause(&error);
        (
            EXIT_USAGE,
            format!("{name} was not started by the service manager: {why}; next: sc start {name}, or pq-station run"),
        )
    })
}

/// The system's own words: the crate's say no more than that a call failed.
fn cause(error: &windows_service::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The service, in the thread that the manager started.
pub fn main() {
    let Some((name, path)) = GIVEN.get() else { return };
    let handle = match register(name, |control| match control {
        ServiceControl::Stop | ServiceControl::Preshutdown => {
            stop();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    }) {
        Ok(handle) => handle,
        Err(error) => {
            return eprintln!(
                "pq-station: {name} cannot answer the service manager: {}",
                cause(&error)
            )
        }
    };
    tell(handle, ServiceState::StartPending, 1, 0);
    let served = Config::load(path).and_then(|config| {
        serve(&config, false, |state| match state {
            State::Running => tell(handle, ServiceState::Running, 0, 0),
            State::Stopping(checkpoint) => tell(handle, ServiceState::StopPending, checkpoint, 0),
        })
    });
    let code = match served {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("pq-station: {why}");
            EXIT_ENVIRONMENT
        }
    };
    tell(handle, ServiceState::Stopped, 0, code);
}

fn tell(handle: ServiceStatusHandle, state: ServiceState, checkpoint: u32, code: i32) {
    let is_pending = matches!(state, ServiceState::StartPending | ServiceState::StopPending);
    let accepted = if state == ServiceState::Running {
        ServiceControlAccept::STOP | ServiceControlAccept::PRESHUTDOWN
    } else {
        ServiceControlAccept::empty()
    };
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: accepted,
        exit_code: match u32::try_from(code) {
            Ok(0) | Err(_) => ServiceExitCode::NO_ERROR,
            Ok(code) => ServiceExitCode::ServiceSpecific(code),
        },
        checkpoint,
        wait_hint: if is_pending { HINT.max(STEP * 2) } else { Duration::ZERO },
        process_id: None,
    };
    if let Err(error) = handle.set_service_status(status) {
        eprintln!(
            "pq-station: the service manager did not take the state {state:?}: {}",
            cause(&error)
        );
    }
}

fn serve(config: &Config, is_echoed: bool, tell: impl FnMut(State)) -> Result<(), String> {
    let mut journal = Journal::begin(Path::new(&config.log), &config.older_log(), is_echoed)?;
    if !is_echoed {
        let made = raw::have_console().and_then(|()| raw::on_control(ignore));
        if let Err(error) = made {
            journal.say(&format!(
                "no console ({error}): the program is asked to end by its standard input alone"
            ));
        }
    }
    let (sender, receiver) = channel();
    STOP.lock().map_err(|error| error.to_string())?.replace(sender.clone());
    let mut station = Station::new(config, journal, (sender, receiver), tell);
    let served = supervise(&mut station, config.pauses(), config.grace());
    if let Err(why) = &served {
        crate::supervise::World::say(&mut station, why);
    }
    served
}
