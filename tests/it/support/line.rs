//! A line to another datacenter that can be cut: nothing comes through, and nobody is told.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Where the line begins; it ends at 127.0.0.1, at the same ports.
pub const NEAR_END: &str = "127.0.0.3";

/// How often it is looked whether it is cut, mended or over.
const STEP: Duration = Duration::from_millis(20);

/// Connections and packets through it. It ends with this.
pub struct Line {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    cut: AtomicBool,
    over: AtomicBool,
}

impl Line {
    /// Leads connections on `tcp` ports and packets on `udp` ports.
    pub fn start(tcp: &[u16], udp: &[u16]) -> Self {
        let state = Arc::new(State::default());
        for port in tcp.iter().copied() {
            let listener = TcpListener::bind((NEAR_END, port)).expect("a port of this test's own");
            listener.set_nonblocking(true).expect("a socket");
            let state = state.clone();
            std::thread::spawn(move || state.accept(&listener, port));
        }
        for port in udp.iter().copied() {
            let socket = UdpSocket::bind((NEAR_END, port)).expect("a port of this test's own");
            socket.set_read_timeout(Some(STEP)).expect("not zero");
            let state = state.clone();
            std::thread::spawn(move || state.pass_packets(&socket, port));
        }
        Self { state }
    }

    /// From now on what is sent is kept (connections) or lost (packets).
    pub fn cut(&self) {
        self.state.cut.store(true, Ordering::Relaxed);
    }

    /// What was kept arrives.
    pub fn mend(&self) {
        self.state.cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends when something may pass, or all is over.
    fn passes(&self) -> bool {
        while self.cut.load(Ordering::Relaxed) && !self.is_over() {
            std::thread::sleep(STEP);
        }
        !self.is_over()
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener, port: u16) {
        while !self.is_over() {
            let Ok((near, _)) = listener.accept() else {
                std::thread::sleep(STEP);
                continue;
            };
            let state = self.clone();
            std::thread::spawn(move || state.lead(near, port).ok());
        }
    }

    fn lead(self: Arc<Self>, near: TcpStream, port: u16) -> io::Result<()> {
        if !self.passes() {
            return Ok(());
        }
        let far = TcpStream::connect(("127.0.0.1", port))?;
        near.set_nonblocking(false)?;
        let (back_from, back_to, back) = (far.try_clone()?, near.try_clone()?, self.clone());
        std::thread::spawn(move || back.copy(back_from, back_to).ok());
        self.copy(near, far)
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
        from.set_read_timeout(Some(STEP))?;
        let mut buffer = [0; 16 << 10];
        while !self.is_over() {
            let count = match from.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
                Err(error) => return Err(error),
            };
            if !self.passes() || count == 0 {
                return to.shutdown(std::net::Shutdown::Both);
            }
            to.write_all(&buffer[..count])?;
        }
        Ok(())
    }

    fn pass_packets(&self, socket: &UdpSocket, port: u16) {
        let mut buffer = [0; 64 << 10];
        while !self.is_over() {
            let Ok((count, _)) = socket.recv_from(&mut buffer) else { continue };
            if !self.cut.load(Ordering::Relaxed) {
                // Whoever is pinged answers to the address that the packet names.
                socket.send_to(&buffer[..count], ("127.0.0.1", port)).ok();
            }
        }
    }
}
