//! What a service does: start, start again, stop. No system call: the world around it is a trait.

use crate::pause::Pause;
use std::time::Duration;

/// The service manager hears of a stop that goes on at least so often.
pub const STEP: Duration = Duration::from_secs(1);

/// What can happen while the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The service shall end.
    Stop,
    /// The program ended by itself, with this code where the system told one.
    Ended(Option<i32>),
}

/// What the service manager is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Running,
    /// With a number that grows while it goes on.
    Stopping(u32),
}

/// The system as the supervisor sees it.
pub trait World {
    /// Time since any beginning, never going back.
    fn now(&self) -> Duration;
    /// Start the program; its process number.
    ///
    /// # Errors
    /// One line, why it does not start.
    fn start(&mut self) -> Result<u32, String>;
    /// The next event, none when `limit` passed first.
    fn next(&mut self, limit: Option<Duration>) -> Option<Event>;
    /// Ask the program to end by itself: its standard input ends.
    fn ask(&mut self);
    /// Ask once more, by `CTRL_BREAK`, which ends a program that has no handler for it.
    fn interrupt(&mut self);
    /// End whatever is left of the program and of what it started; how many processes are left even so.
    fn end(&mut self) -> u32;
    fn say(&mut self, line: &str);
    fn report(&mut self, state: State);
}

/// Run the program until a stop is asked for.
///
/// # Errors
/// One line, when it cannot be started the very first time.
pub fn supervise(world: &mut dyn World, pauses: (Duration, Duration), grace: Duration) -> Result<(), String> {
    let mut pause = Pause::new(pauses.0, pauses.1);
    let mut is_first = true;
    loop {
        let begun = world.now();
        match world.start() {
            Err(why) if is_first => return Err(why),
            Err(why) => world.say(&why),
            Ok(process) => {
                world.say(&format!("program started, process {process}"));
                if is_first {
                    world.report(State::Running);
                }
                match world.next(None) {
                    Some(Event::Ended(code)) => tidy(world, code, begun),
                    Some(Event::Stop) | None => {
                        stop(world, grace);
                        return Ok(());
                    }
                }
            }
        }
        is_first = false;
        let wait = pause.after(world.now().saturating_sub(begun));
        world.say(&format!("started again in {:.1} s", wait.as_secs_f64()));
        if is_stopped_within(world, wait) {
            world.report(State::Stopping(1));
            world.say("stopped while no program ran");
            return Ok(());
        }
    }
}

fn tidy(world: &mut dyn World, code: Option<i32>, begun: Duration) {
    let lived = world.now().saturating_sub(begun).as_secs_f64();
    let shown = code.map_or_else(|| "no code".to_owned(), |code| format!("code {code}"));
    world.say(&format!("program ended by itself with {shown} after {lived:.1} s"));
    left_behind(world);
}

fn left_behind(world: &mut dyn World) {
    let count = world.end();
    if count > 0 {
        world.say(&format!(
            "{count} processes of it could not be ended; next: look for them in the task manager"
        ));
    }
}

fn is_stopped_within(world: &mut dyn World, wait: Duration) -> bool {
    let until = world.now() + wait;
    loop {
        let left = until.saturating_sub(world.now());
        if left.is_zero() {
            return false;
        }
        if world.next(Some(left)) == Some(Event::Stop) {
            return true;
        }
    }
}

/// Standard input first: a program without a handler dies of `CTRL_BREAK` on the spot, before it can tidy up.
fn stop(world: &mut dyn World, grace: Duration) {
    let begun = world.now();
    let mut checkpoint = 1;
    world.report(State::Stopping(checkpoint));
    world.ask();
    let mut is_clean = has_ended_by(world, begun + grace / 2, &mut checkpoint);
    if !is_clean {
        world.say("the program does not end with its standard input: it is sent CTRL_BREAK");
        world.interrupt();
        is_clean = has_ended_by(world, begun + grace, &mut checkpoint);
    }
    left_behind(world);
    let took = world.now().saturating_sub(begun).as_secs_f64();
    if is_clean {
        world.say(&format!("stopped: the program ended when asked, {took:.1} s"));
    } else {
        let grace = grace.as_secs_f64();
        world.say(&format!(
            "stopped by force: the program did not end within {grace:.1} s of being asked"
        ));
    }
}

fn has_ended_by(world: &mut dyn World, until: Duration, checkpoint: &mut u32) -> bool {
    loop {
        let left = until.saturating_sub(world.now());
        if left.is_zero() {
            return false;
        }
        if let Some(Event::Ended(_)) = world.next(Some(left.min(STEP))) {
            return true;
        }
        *checkpoint += 1;
        world.report(State::Stopping(*checkpoint));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Events at times; what was done is written down.
    #[derive(Default)]
    struct Fake {
        now: Duration,
        due: VecDeque<(u64, Event)>,
        refusals: Vec<usize>,
        starts: usize,
        left: u32,
        done: Vec<String>,
    }

    impl Fake {
        fn with(due: &[(u64, Event)]) -> Self {
            Self {
                due: due.iter().copied().collect(),
                ..Self::default()
            }
        }

        fn run(&mut self) -> Result<(), String> {
            supervise(
                self,
                (Duration::from_secs(1), Duration::from_secs(4)),
                Duration::from_secs(8),
            )
        }

        fn starts_at(&self) -> Vec<&str> {
            self.done
                .iter()
                .filter_map(|line| line.strip_prefix("start at "))
                .collect()
        }
    }

    impl World for Fake {
        fn now(&self) -> Duration {
            self.now
        }

        fn start(&mut self) -> Result<u32, String> {
            self.done.push(format!("start at {}", self.now.as_secs_f64()));
            self.starts += 1;
            if self.refusals.contains(&self.starts) {
                return Err("it does not start".to_owned());
            }
            Ok(u32::try_from(self.starts).unwrap())
        }

        fn next(&mut self, limit: Option<Duration>) -> Option<Event> {
            let (at, event) = *self.due.front().expect("nothing is left to happen");
            let at = Duration::from_millis(at);
            if limit.is_some_and(|limit| self.now + limit <= at) {
                self.now += limit.unwrap();
                return None;
            }
            self.now = self.now.max(at);
            self.due.pop_front();
            Some(event)
        }

        fn ask(&mut self) {
            self.done.push("ask".to_owned());
        }

        fn interrupt(&mut self) {
            self.done.push(format!("break at {}", self.now.as_secs_f64()));
        }

        fn end(&mut self) -> u32 {
            self.done.push("end".to_owned());
            self.left
        }

        fn say(&mut self, line: &str) {
            self.done.push(format!("say {line}"));
        }

        fn report(&mut self, state: State) {
            self.done.push(format!("{state:?}"));
        }
    }

    #[test]
    fn a_program_that_ends_when_asked_is_stopped_cleanly() {
        let mut world = Fake::with(&[(5_000, Event::Stop), (6_500, Event::Ended(Some(0)))]);
        world.run().unwrap();
        assert_eq!(
            world.done,
            [
                "start at 0",
                "say program started, process 1",
                "Running",
                "Stopping(1)",
                "ask",
                "Stopping(2)",
                "end",
                "say stopped: the program ended when asked, 1.5 s",
            ]
        );
    }

    #[test]
    fn a_deaf_program_is_ended_after_the_grace_and_the_manager_hears_meanwhile() {
        let mut world = Fake::with(&[(0, Event::Stop), (99_000, Event::Ended(None))]);
        world.run().unwrap();
        assert_eq!(world.now, Duration::from_secs(8));
        let checkpoints: Vec<&String> = world.done.iter().filter(|line| line.starts_with("Stopping")).collect();
        assert_eq!(checkpoints.len(), 9);
        assert_eq!(checkpoints[8], "Stopping(9)");
        assert!(
            world.done.contains(&"break at 4".to_owned()),
            "half of the grace is for the end of standard input"
        );
        let ended = world.done.iter().position(|line| line == "end").unwrap();
        assert_eq!(
            world.done[ended + 1],
            "say stopped by force: the program did not end within 8.0 s of being asked"
        );
    }

    #[test]
    fn a_program_that_ends_with_its_input_is_never_interrupted() {
        let mut world = Fake::with(&[(0, Event::Stop), (3_900, Event::Ended(Some(0)))]);
        world.run().unwrap();
        assert!(!world.done.iter().any(|line| line.starts_with("break")));
        let mut world = Fake::with(&[(0, Event::Stop), (4_100, Event::Ended(Some(1)))]);
        world.run().unwrap();
        assert!(world.done.contains(&"break at 4".to_owned()));
        assert!(world
            .done
            .last()
            .unwrap()
            .starts_with("say stopped: the program ended when asked"));
    }

    #[test]
    fn a_second_stop_changes_nothing() {
        let mut world = Fake::with(&[(0, Event::Stop), (500, Event::Stop), (900, Event::Ended(Some(0)))]);
        world.run().unwrap();
        assert_eq!(world.done.iter().filter(|line| *line == "ask").count(), 1);
        assert!(world.done.last().unwrap().contains("0.9 s"));
    }

    #[test]
    fn a_program_that_dies_at_once_is_started_with_a_growing_pause() {
        let mut deaths: Vec<(u64, Event)> = [0, 1_000, 3_000, 7_000, 11_000]
            .map(|at| (at, Event::Ended(Some(1))))
            .to_vec();
        deaths.push((11_500, Event::Stop));
        let mut world = Fake::with(&deaths);
        world.run().unwrap();
        assert_eq!(world.starts_at(), ["0", "1", "3", "7", "11"]);
        assert_eq!(
            world.done.iter().filter(|line| *line == "end").count(),
            5,
            "what each left behind is ended"
        );
        assert_eq!(world.done.last().unwrap(), "say stopped while no program ran");
    }

    #[test]
    fn a_program_that_lived_is_back_after_the_first_pause() {
        let mut world = Fake::with(&[
            (0, Event::Ended(Some(1))),
            (2_000, Event::Ended(Some(1))),
            (30_000, Event::Ended(Some(3))),
            (32_000, Event::Stop),
            (32_000, Event::Ended(Some(0))),
        ]);
        world.run().unwrap();
        assert_eq!(world.starts_at(), ["0", "1", "4", "31"]);
        assert!(world
            .done
            .contains(&"say program ended by itself with code 3 after 26.0 s".to_owned()));
    }

    #[test]
    fn the_first_start_that_fails_is_the_callers_and_a_later_one_is_tried_again() {
        let mut world = Fake {
            refusals: vec![1],
            ..Fake::default()
        };
        assert_eq!(world.run().unwrap_err(), "it does not start");
        let mut world = Fake::with(&[
            (0, Event::Ended(None)),
            (9_000, Event::Stop),
            (9_000, Event::Ended(Some(0))),
        ]);
        world.refusals = vec![2];
        world.run().unwrap();
        assert_eq!(world.starts_at(), ["0", "1", "3"]);
        assert!(world.done.contains(&"say it does not start".to_owned()));
    }

    #[test]
    fn an_end_that_comes_late_does_not_shorten_a_pause() {
        let mut world = Fake::with(&[
            (0, Event::Ended(None)),
            (200, Event::Ended(None)),
            (5_000, Event::Stop),
            (5_000, Event::Ended(Some(0))),
        ]);
        world.run().unwrap();
        assert_eq!(world.starts_at(), ["0", "1"]);
    }

    #[test]
    fn what_cannot_be_ended_is_said() {
        let mut world = Fake::with(&[(0, Event::Stop), (0, Event::Ended(Some(0)))]);
        world.left = 2;
        world.run().unwrap();
        assert!(world
            .done
            .iter()
            .any(|line| line.starts_with("say 2 processes of it could not be ended; next: ")));
    }
}
