use super::*;

/// Who waits is its number; who has hung up is above a thousand.
type Line = Turns<u64>;

const SECOND_NS: i64 = 1_000_000_000;
const PATIENCE_NS: i64 = 4 * SECOND_NS;

fn key(number: u64) -> DroneId {
    number.to_be_bytes()
}

fn enters(line: &mut Line, number: u64, purpose: Purpose, now_ns: i64) {
    let older = line.enter(key(number), purpose, number, now_ns + PATIENCE_NS);
    assert_eq!(older, None);
}

fn next(line: &mut Line, now_ns: i64) -> Option<Turn<u64>> {
    line.next(now_ns, |guest| *guest, |guest| *guest < 1000)
}

#[allow(clippy::unnecessary_wraps)] // as `next` has it
fn begins(number: u64) -> Option<Turn<u64>> {
    Some(Turn::Begin(number, None))
}

#[test]
fn no_more_are_worked_for_than_there_are_processors_and_in_order_of_arrival() {
    let mut line = Line::new(2, 100);
    for number in 1..=50 {
        enters(&mut line, number, Purpose::Join, 0);
    }
    assert_eq!(line.figures().waiting, 50);
    assert_eq!(next(&mut line, 0), begins(1));
    assert_eq!(next(&mut line, 0), begins(2));
    assert_eq!(next(&mut line, 0), None, "both processors are taken");
    line.worked(2, 0);
    assert_eq!(next(&mut line, 0), begins(3), "2 waits for its drone");
    assert_eq!(next(&mut line, 0), None);
    line.answered(2);
    assert_eq!(next(&mut line, 0), None);
    line.worked(1, 0);
    assert_eq!(
        next(&mut line, 0),
        Some(Turn::GoOn(2)),
        "what is begun ends"
    );
    assert!(line.finish(3) && line.finish(2));
    assert_eq!(next(&mut line, 0), begins(4));
    assert_eq!(next(&mut line, 0), begins(5));
    assert_eq!(line.figures().most_at_work, 2);
    assert_eq!(
        (line.figures().waiting, line.figures().most_waiting),
        (45, 50)
    );
    assert!(line.finish(1) && !line.finish(1));
    assert_eq!(next(&mut line, 0), None, "1 was not worked for");
}

#[test]
fn a_rekey_passes_waiting_joins_and_starves_them_not() {
    let mut line = Line::new(1, 100);
    for number in 1..=4 {
        enters(&mut line, number, Purpose::Join, 0);
    }
    for number in 11..=19 {
        enters(&mut line, number, Purpose::Rekey, 0);
    }
    let mut order = Vec::new();
    while let Some(Turn::Begin(number, None)) = next(&mut line, 0) {
        order.push(number);
        assert!(line.finish(number));
    }
    assert_eq!(order, [11, 12, 13, 1, 14, 15, 16, 2, 17, 18, 19, 3, 4]);
}

#[test]
fn who_has_hung_up_is_dropped_and_nothing_was_begun() {
    let mut line = Line::new(1, 100);
    enters(&mut line, 1001, Purpose::Join, 0);
    enters(&mut line, 1, Purpose::Join, 0);
    enters(&mut line, 1002, Purpose::Join, 0);
    assert_eq!(next(&mut line, 0), Some(Turn::Gone(1001)));
    assert_eq!(next(&mut line, 0), begins(1));
    assert_eq!(line.gone(SECOND_NS - 1, |guest| *guest < 1000), []);
    assert_eq!(line.gone(SECOND_NS, |guest| *guest < 1000), [1002]);
    assert_eq!(line.figures().waiting, 0);
    assert_eq!(line.begun.len(), 1);
}

#[test]
fn a_drone_that_dials_again_keeps_its_place() {
    let mut line = Line::new(1, 3);
    for number in 1..=3 {
        enters(&mut line, number, Purpose::Join, 0);
    }
    assert_eq!(line.admit(&key(1)), Ok(()), "it has a place");
    let older = line.enter(key(1), Purpose::Join, 901, PATIENCE_NS);
    assert_eq!(older, Some(1), "of which nobody knows any more");
    assert_eq!(next(&mut line, 0), begins(901));
    // Where its purpose is another one, it has a place there.
    let older = line.enter(key(2), Purpose::Rekey, 902, PATIENCE_NS);
    assert_eq!((older, line.figures().waiting), (Some(2), 2));
}

#[test]
fn whoever_waits_too_long_is_asked_back_and_keeps_its_place_for_a_while() {
    let mut line = Line::new(1, 100);
    enters(&mut line, 1, Purpose::Join, 0);
    enters(&mut line, 2, Purpose::Join, 1);
    assert_eq!(line.overdue(PATIENCE_NS - 1), []);
    assert_eq!(line.overdue(PATIENCE_NS), [1]);
    enters(&mut line, 3, Purpose::Join, PATIENCE_NS);
    assert_eq!(next(&mut line, PATIENCE_NS), begins(2), "1 is on its way");
    let back_ns = PATIENCE_NS + 100;
    assert_eq!(line.enter(key(1), Purpose::Join, 901, 2 * back_ns), None);
    line.finish(2);
    assert_eq!(next(&mut line, back_ns), begins(901), "before 3");
    assert_eq!(line.overdue(2 * PATIENCE_NS), [3]);
    let full = line.joins.len() + line.begun.len();
    assert_eq!(full, 2, "a place that is kept is taken");
    assert_eq!(line.overdue(2 * PATIENCE_NS + KEPT_NS), []);
    assert!(line.joins.is_empty(), "it did not come");
}

#[test]
fn a_full_queue_refuses_by_name() {
    let mut line = Line::new(1, 3);
    for number in 1..=3 {
        assert_eq!(line.admit(&key(number)), Ok(()));
        enters(&mut line, number, Purpose::Join, 0);
    }
    assert_eq!(next(&mut line, 0), begins(1));
    let refused = line.admit(&key(4)).map_err(|error| error.reason);
    assert_eq!(refused, Err(Reason::HalfOpenLimit));
    assert!(line.finish(1));
    assert_eq!(line.admit(&key(4)), Ok(()));
    line.set_most(2);
    assert!(line.admit(&key(4)).is_err());
}

#[test]
fn drones_that_do_not_answer_hold_up_the_others_for_a_second() {
    let mut line = Line::new(1, 1000);
    for number in 1..=900 {
        enters(&mut line, number, Purpose::Join, 0);
    }
    let begin_all = |line: &mut Line, now_ns| {
        let mut begun = 0;
        while let Some(Turn::Begin(number, None)) = next(line, now_ns) {
            line.worked(number, now_ns);
            begun += 1;
        }
        begun
    };
    assert_eq!(begin_all(&mut line, 0), MOST_BRISK);
    assert_eq!(begin_all(&mut line, SLOW_NS - 1), 0);
    for second in 1..4 {
        assert_eq!(begin_all(&mut line, second * SLOW_NS), MOST_BRISK);
    }
    assert_eq!(begin_all(&mut line, 4 * SLOW_NS), 0, "memory has an end");
    line.answered(1);
    assert_eq!(next(&mut line, 4 * SLOW_NS), Some(Turn::GoOn(1)));
    assert!(line.finish(1));
    assert_eq!(begin_all(&mut line, 4 * SLOW_NS), 1);
}

#[test]
fn a_drone_that_dials_without_end_pushes_out_itself_alone() {
    let mut line = Line::new(100, 100);
    for number in 1..=4 {
        assert_eq!(line.enter(key(1), Purpose::Join, number, 9), None);
        assert_eq!(next(&mut line, 0), begins(number));
    }
    enters(&mut line, 5, Purpose::Join, 0);
    assert_eq!(next(&mut line, 0), begins(5));
    for (number, victim) in [(6, 1), (7, 2)] {
        assert_eq!(line.enter(key(1), Purpose::Join, number, 9), None);
        let expected = Some(Turn::Begin(number, Some(victim)));
        assert_eq!(next(&mut line, 0), expected);
    }
    assert!(!line.finish(1) && line.finish(5));
}

#[test]
fn drones_that_are_served_no_more_leave() {
    let mut line = Line::new(1, 100);
    enters(&mut line, 1, Purpose::Join, 0);
    enters(&mut line, 2, Purpose::Rekey, 0);
    enters(&mut line, 3, Purpose::Join, 0);
    assert_eq!(line.revoked(&HashSet::from([key(2), key(3)])), [2, 3]);
    assert_eq!(next(&mut line, 0), begins(1));
}
