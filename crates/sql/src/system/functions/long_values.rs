//! A test of all functions and operators with long values: each lets others run in time, and ends
//! when it is cancelled. See [`colibri_types::pulse`].

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use colibri_types::{
    Array, Datum, Env, Numeric, SqlState, Type, functions::Function, pulse, pulse::Pulse, value::random::random_datum,
};

use crate::registry::FUNCTIONS;

/// Bytes of a long text: 8 ns a byte, which is little for a build without optimizations, are more
/// than [`GAP_MAX`].
const BYTES: usize = 16 << 20;
/// Values of a long array.
const VALUES: usize = 1 << 20;
/// The longest CPU time between two polls.
const GAP_MAX: Duration = Duration::from_millis(100);
/// A function that runs for this time is cancelled.
const TIME_MAX: Duration = Duration::from_millis(500);

/// The matcher of regular expressions has tests of its own.
const ELSEWHERE: &[&str] = &["~", "!~", "~*", "!~*", "substring", "texticregexeq", "texticregexne"];

fn is_elsewhere(function: &Function) -> bool {
    function.name.starts_with("regexp_")
        || ELSEWHERE.contains(&function.name)
            && matches!(function.args, [Type::Text | Type::Citext, Type::Text | Type::Citext])
}

fn cpu_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap()).as_nanos() as u64
}

/// Long arguments; each function is tried with several.
fn arguments(function: &Function, attempt: usize, random: &mut fastrand::Rng) -> Vec<Datum> {
    let count = function.args.len() + usize::from(function.variadic);
    let texts = ["ab", "\u{e9}\u{20ac} ", "\\", "9", "x,"];
    let value = |index: usize, random: &mut fastrand::Rng| {
        let ty = function.arg_type(index);
        let is_long = index == 0 || attempt >= 3;
        match ty {
            Type::Text => {
                let part = texts[(attempt + index) % texts.len()];
                if is_long { Datum::text(&part.repeat(BYTES / part.len())) } else { Datum::text(part) }
            }
            Type::Bytea if is_long => Datum::Bytes(vec![b'a' + attempt as u8; BYTES].into()),
            Type::AnyArray | Type::Array(_) => {
                let values = if is_long { VALUES } else { 3 };
                Datum::Array(Arc::new(Array::new(Type::Int4, (0..values).map(|at| Datum::Int(at as i64)).collect())))
            }
            Type::AnyElement => Datum::Int(-1),
            Type::Int4 | Type::Int8 => Datum::Int([3, 1_000_000, 100_000_000][attempt % 3]),
            Type::Numeric => Datum::Numeric(Numeric::new(12_345_678_901_234_567_890, 7)),
            ty => random_datum(ty, random),
        }
    };
    (0..count).map(|index| value(index, random)).collect()
}

/// Calls every function of one half, by turns; what was wrong.
fn faults_of_half(half: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(5);
    let env = Env::default();
    let cancel = Arc::new(AtomicBool::new(false));
    let [begun, last, longest] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let hook = {
        let (begun, last, longest) = (Arc::clone(&begun), Arc::clone(&last), Arc::clone(&longest));
        let cancel = Arc::clone(&cancel);
        move || {
            let now = cpu_time();
            longest.fetch_max(now - last.swap(now, Ordering::Relaxed), Ordering::Relaxed);
            // Some would run for hours.
            if now - begun.load(Ordering::Relaxed) > TIME_MAX.as_nanos() as u64 {
                cancel.store(true, Ordering::Relaxed);
            }
        }
    };
    let at_work = Pulse::new(Some(Arc::new(hook)), &cancel).begin();
    let is_long = |ty: &Type| matches!(ty, Type::Text | Type::Bytea | Type::AnyArray | Type::Array(_));
    let mut faults = Vec::new();
    let functions =
        FUNCTIONS.all().iter().filter(|function| function.args.iter().any(is_long) && !is_elsewhere(function));
    for function in functions.skip(half).step_by(2) {
        for attempt in 0..4 {
            let values = arguments(function, attempt, &mut random);
            let args: Vec<&Datum> = values.iter().collect();
            let name = format!("{}({:?}), attempt {attempt}", function.name, function.args);
            longest.store(0, Ordering::Relaxed);
            last.store(cpu_time(), Ordering::Relaxed);
            cancel.store(false, Ordering::Relaxed);
            let begin = cpu_time();
            begun.store(begin, Ordering::Relaxed);
            let ended = function.call(&args, &env);
            let _ = pulse::check();
            let took = Duration::from_nanos(cpu_time() - begin);
            let gap = Duration::from_nanos(longest.load(Ordering::Relaxed));
            if gap > GAP_MAX {
                faults.push(format!("{name}: {gap:?} between two chances"));
            }
            drop(ended);
            if took <= GAP_MAX {
                continue;
            }
            cancel.store(true, Ordering::Relaxed);
            let begin = cpu_time();
            let ended = function.call(&args, &env);
            let took = Duration::from_nanos(cpu_time() - begin);
            cancel.store(false, Ordering::Relaxed);
            let is_canceled = ended.is_err_and(|error| error.state() == SqlState::CANCELED);
            if took > GAP_MAX || !is_canceled {
                faults.push(format!("{name}: cancelled, it takes {took:?}, and says so: {is_canceled}"));
            }
        }
    }
    at_work.end();
    faults
}

#[test]
fn every_function_gives_others_a_chance_and_can_be_ended() {
    let faults = std::thread::scope(|scope| {
        let other = scope.spawn(|| faults_of_half(1));
        let mut faults = faults_of_half(0);
        faults.extend(other.join().unwrap());
        faults
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
