//! A well-behaved client, and what it has to bear while others misbehave.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::port;
use crate::support::{Frames, PATIENCE, Rosterd, mux};

/// The promise: 99 of 100 answers come within this time.
const PROMPT: Duration = Duration::from_millis(100);
/// The other promise: so many bytes more than before, at most.
const MORE: u64 = 50 << 20;
/// As many answers are needed to speak of a hundredth of them.
const ENOUGH: usize = 200;

/// Does this to the server. Meanwhile another client pings and asks, and afterwards memory is as it was.
///
/// What the machine itself takes, measured with bytes that a thread of the test sends back, does not count.
pub fn bears(rosterd: &Rosterd, attack: impl FnOnce() + Send) {
    let before = rosterd.resident();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let bystander = scope.spawn(|| answers_until(port(rosterd), &over));
        let attacker = scope.spawn(attack);
        let outcome = attacker.join();
        over.store(true, Ordering::Relaxed);
        let (mut answers, mut machine) = bystander.join().expect("the bystander is served");
        outcome.expect("the attack goes as it should");
        let slow = hundredth(&mut answers).saturating_sub(hundredth(&mut machine));
        assert!(slow < PROMPT, "one in a hundred answers takes {slow:?} longer than the machine, of {}", answers.len());
    });
    let deadline = Instant::now() + PATIENCE;
    while rosterd.resident() > before + MORE {
        let after = rosterd.resident();
        assert!(Instant::now() < deadline, "resident memory went from {} MiB to {} MiB", before >> 20, after >> 20);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How long answers took until then, and how long the machine took for the same.
fn answers_until(port: u16, over: &AtomicBool) -> (Vec<Duration>, Vec<Duration>) {
    let mut session = mux::session(port);
    let mut echo = echo();
    let (mut answers, mut machine) = (Vec::new(), Vec::new());
    while !over.load(Ordering::Relaxed) || answers.len() < ENOUGH {
        answers.push(timed(|| ping_and_ask(&mut session)));
        machine.push(timed(|| {
            for _ in 0..2 {
                echo.write_all(&[0]).and_then(|()| echo.read_exact(&mut [0])).expect("a thread sends it back");
            }
        }));
        std::thread::sleep(Duration::from_millis(2));
    }
    (answers, machine)
}

/// A ping and a question that can be answered at once.
pub fn ping_and_ask(session: &mut Frames) {
    session.send(mux::TPING);
    assert_eq!(session.frame(), mux::RPING);
    session.send(&mux::tdispatch(2, &mux::bind("", b"", &["svc", "web"], "default").write()));
    assert_eq!(mux::stamp(&mux::reply(&session.frame())).len(), 8);
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// What one in a hundred takes.
fn hundredth(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() - 1 - times.len() / 100]
}

/// A connection on which every byte comes back.
fn echo() -> TcpStream {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
    client.set_nodelay(true).expect("a fresh socket takes options");
    std::thread::spawn(move || {
        let (mut server, _) = listener.accept().ok()?;
        server.set_nodelay(true).ok()?;
        let mut byte = [0];
        while server.read_exact(&mut byte).is_ok() {
            server.write_all(&byte).ok()?;
        }
        Some(())
    });
    client
}
