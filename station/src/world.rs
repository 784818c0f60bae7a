//! The supervisor's world on Windows: one program in a job, events through a channel.

use crate::config::Config;
use crate::journal::Journal;
use crate::raw::{self, Job};
use crate::supervise::{Event, State, World};
use std::io;
use std::os::windows::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use windows_sys::Win32::System::Threading::{CREATE_NEW_PROCESS_GROUP, CREATE_SUSPENDED};

/// Processes that were ended live on for a moment; longer than this is told.
const END_LIMIT: Duration = Duration::from_secs(3);
const END_STEP: Duration = Duration::from_millis(20);

struct Running {
    job: Job,
    group: u32,
    /// Closed when the program is asked to end.
    input: Option<ChildStdin>,
}

/// One service's program and log.
pub struct Station<'a> {
    config: &'a Config,
    journal: Journal,
    begun: Instant,
    sender: Sender<Event>,
    receiver: Receiver<Event>,
    running: Option<Running>,
    tell: Box<dyn FnMut(State) + 'a>,
}

impl<'a> Station<'a> {
    /// `tell` hears every state; `sender` and `receiver` are the two ends of one channel.
    pub fn new(
        config: &'a Config,
        journal: Journal,
        (sender, receiver): (Sender<Event>, Receiver<Event>),
        tell: impl FnMut(State) + 'a,
    ) -> Self {
        Self {
            config,
            journal,
            begun: Instant::now(),
            sender,
            receiver,
            running: None,
            tell: Box::new(tell),
        }
    }

    /// Suspended, so that it is in the job before it can start anything; a group of its own, for `CTRL_BREAK`.
    fn command(&self) -> io::Result<Command> {
        let mut command = Command::new(&self.config.program);
        command
            .args(&self.config.arguments)
            .envs(&self.config.environment)
            .current_dir(&self.config.directory)
            .stdin(Stdio::piped())
            .stdout(self.journal.for_program()?)
            .stderr(self.journal.for_program()?)
            .creation_flags(CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP);
        Ok(command)
    }

    fn launch(&mut self) -> io::Result<u32> {
        let job = Job::new()?;
        let mut child = self.command()?.spawn()?;
        if let Err(error) = job.take(&child).and_then(|()| raw::resume(&child)) {
            child.kill()?;
            return Err(error);
        }
        let (group, input) = (child.id(), child.stdin.take());
        self.running = Some(Running { job, group, input });
        let sender = self.sender.clone();
        thread::Builder::new()
            .name("wait".to_owned())
            .spawn(move || wait(child, &sender))?;
        Ok(group)
    }
}

fn wait(mut child: Child, sender: &Sender<Event>) {
    let code = child.wait().ok().and_then(|status| status.code());
    // Nobody listens any more when the service has ended meanwhile.
    let _ = sender.send(Event::Ended(code));
}

impl World for Station<'_> {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn start(&mut self) -> Result<u32, String> {
        self.launch().map_err(|error| {
            let (program, directory) = (&self.config.program, &self.config.directory);
            format!("{program} does not start in {directory}: {error}; next: mend program or directory in the settings")
        })
    }

    fn next(&mut self, limit: Option<Duration>) -> Option<Event> {
        match limit {
            Some(limit) => self.receiver.recv_timeout(limit).ok(),
            None => self.receiver.recv().ok(),
        }
    }

    fn ask(&mut self) {
        if let Some(running) = self.running.as_mut() {
            drop(running.input.take());
        }
    }

    fn interrupt(&mut self) {
        let Some(group) = self.running.as_ref().map(|running| running.group) else {
            return;
        };
        if let Err(error) = raw::interrupt(group) {
            self.journal.say(&format!("CTRL_BREAK could not be sent: {error}"));
        }
    }

    fn end(&mut self) -> u32 {
        let Some(Running { job, input, .. }) = self.running.take() else {
            return 0;
        };
        drop(input);
        let until = Instant::now() + END_LIMIT;
        let mut found = job.end().and_then(|()| job.count());
        while matches!(found, Ok(count) if count > 0) && Instant::now() < until {
            thread::sleep(END_STEP);
            found = job.count();
        }
        found.unwrap_or_else(|error| {
            self.journal.say(&format!(
                "the job could not be ended: {error}; its end with this process remains"
            ));
            0
        })
    }

    fn say(&mut self, line: &str) {
        self.journal.say(line);
    }

    fn report(&mut self, state: State) {
        (self.tell)(state);
    }
}
