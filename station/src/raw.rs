//! The only module of the crate with `unsafe` in it: job objects, the child's first thread, consoles, and the entry
//! point that the service manager calls. Each block says why it is sound; everything that leaves the module is safe.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::process::Child;
use std::ptr::null;
use std::sync::OnceLock;
use windows_service::define_windows_service;
use windows_sys::core::BOOL;
use windows_sys::Win32::Foundation::INVALID_HANDLE_VALUE;
use windows_sys::Win32::System::Console::{
    AllocConsole, GenerateConsoleCtrlEvent, GetConsoleWindow, SetConsoleCtrlHandler, CTRL_BREAK_EVENT,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, Thread32First, Thread32Next, TH32CS_SNAPTHREAD, THREADENTRY32,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JobObjectBasicAccountingInformation, JobObjectExtendedLimitInformation,
    QueryInformationJobObject, SetInformationJobObject, TerminateJobObject, JOBOBJECT_BASIC_ACCOUNTING_INFORMATION,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
};
use windows_sys::Win32::System::Threading::{OpenThread, ResumeThread, THREAD_SUSPEND_RESUME};

define_windows_service!(service_entry, entered);

fn entered(_arguments: Vec<std::ffi::OsString>) {
    crate::service::main();
}

/// Serve as the service `name` until it is stopped.
///
/// # Errors
/// When the service manager did not start this process.
pub fn dispatch(name: &str) -> windows_service::Result<()> {
    windows_service::service_dispatcher::start(name, service_entry)
}

fn checked(value: BOOL) -> io::Result<()> {
    if value == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Processes that end together: when they are told to, and when the last handle closes, so with this process whatever
/// way it goes (`JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE`).
pub struct Job(OwnedHandle);

impl Job {
    /// An empty one.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        // SAFETY: both pointers may be null: no name, and a handle that children do not inherit.
        let handle = unsafe { CreateJobObjectW(null(), null()) };
        if handle.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh handle that nobody else owns.
        let job = Self(unsafe { OwnedHandle::from_raw_handle(handle) });
        // SAFETY: a plain C structure, for which all zeroes mean "no limit".
        let mut limits: JOBOBJECT_EXTENDED_LIMIT_INFORMATION = unsafe { zeroed() };
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        // SAFETY: pointer and size are those of the structure that this class of information takes.
        checked(unsafe {
            SetInformationJobObject(
                job.0.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size_of::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>() as u32,
            )
        })?;
        Ok(job)
    }

    /// Take in a process; what it starts from now on belongs to it as well.
    ///
    /// # Errors
    /// The system's.
    pub fn take(&self, child: &Child) -> io::Result<()> {
        // SAFETY: both handles are open as long as their owners are borrowed.
        checked(unsafe { AssignProcessToJobObject(self.0.as_raw_handle(), child.as_raw_handle()) })
    }

    /// End every process in it; they may live for a moment after.
    ///
    /// # Errors
    /// The system's.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: the handle is open.
        checked(unsafe { TerminateJobObject(self.0.as_raw_handle(), 1) })
    }

    /// How many processes in it live.
    ///
    /// # Errors
    /// The system's.
    pub fn count(&self) -> io::Result<u32> {
        // SAFETY: a plain C structure that the system fills.
        let mut account: JOBOBJECT_BASIC_ACCOUNTING_INFORMATION = unsafe { zeroed() };
        // SAFETY: pointer and size are those of the structure; the length that was written is not asked for.
        checked(unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicAccountingInformation,
                (&raw mut account).cast(),
                size_of::<JOBOBJECT_BASIC_ACCOUNTING_INFORMATION>() as u32,
                std::ptr::null_mut(),
            )
        })?;
        Ok(account.ActiveProcesses)
    }
}

/// Let a process run that was created suspended: the standard library keeps no handle of its first thread, so it is
/// looked for by the process's number.
///
/// # Errors
/// The system's, or that no thread was there.
pub fn resume(child: &Child) -> io::Result<()> {
    // SAFETY: no pointer goes in.
    let snapshot = unsafe { CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0) };
    if snapshot == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh handle that nobody else owns.
    let snapshot = unsafe { OwnedHandle::from_raw_handle(snapshot) };
    // SAFETY: a plain C structure of numbers.
    let mut entry: THREADENTRY32 = unsafe { zeroed() };
    entry.dwSize = size_of::<THREADENTRY32>() as u32;
    // SAFETY: the snapshot is open and the entry says its own size, as both calls ask for.
    let mut more = unsafe { Thread32First(snapshot.as_raw_handle(), &raw mut entry) };
    let mut count = 0;
    while more != 0 {
        if entry.th32OwnerProcessID == child.id() {
            resume_thread(entry.th32ThreadID)?;
            count += 1;
        }
        // SAFETY: as above.
        more = unsafe { Thread32Next(snapshot.as_raw_handle(), &raw mut entry) };
    }
    if count == 0 {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the new process has no thread"));
    }
    Ok(())
}

fn resume_thread(number: u32) -> io::Result<()> {
    // SAFETY: no pointer goes in; the number may be stale, which is an error of the call.
    let thread = unsafe { OpenThread(THREAD_SUSPEND_RESUME, 0, number) };
    if thread.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh handle that nobody else owns.
    let thread = unsafe { OwnedHandle::from_raw_handle(thread) };
    // SAFETY: the handle is open and has the right that the call needs.
    if unsafe { ResumeThread(thread.as_raw_handle()) } == u32::MAX {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Have a console, which a service does not by itself: only processes of one console can send each other `CTRL_BREAK`.
///
/// # Errors
/// The system's.
pub fn have_console() -> io::Result<()> {
    // SAFETY: neither call takes a pointer.
    unsafe {
        if GetConsoleWindow().is_null() {
            return checked(AllocConsole());
        }
    }
    Ok(())
}

/// Send `CTRL_BREAK` to a process group.
///
/// # Errors
/// The system's, so where group and caller share no console.
pub fn interrupt(group: u32) -> io::Result<()> {
    // SAFETY: no pointer goes in.
    checked(unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, group) })
}

static ON_CONTROL: OnceLock<fn()> = OnceLock::new();

/// Call this for every Ctrl-C, Ctrl-Break and closing of the console, instead of ending at once.
///
/// # Errors
/// The system's.
pub fn on_control(call: fn()) -> io::Result<()> {
    ON_CONTROL.get_or_init(|| call);
    // SAFETY: the function has the signature the call asks for and lives as long as the program.
    checked(unsafe { SetConsoleCtrlHandler(Some(controlled), 1) })
}

/// Runs in a thread that the system makes for it.
unsafe extern "system" fn controlled(_kind: u32) -> BOOL {
    if let Some(call) = ON_CONTROL.get() {
        call();
    }
    1
}
