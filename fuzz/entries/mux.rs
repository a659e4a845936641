//! Any bytes as what a peer sends: frames, fragments, messages. How the bytes are cut on their way is no matter, and what
//! was understood is understood again when it is written.

use bytes::BytesMut;
use rosterd::mux::{Frame, Message, Reassembly, take_frame};
use rosterd::wire::Output;

const MOST: usize = 1 << 10;

pub fn run(data: &[u8]) {
    let whole = messages(data, data.len().max(1));
    assert_eq!(whole, messages(data, data.len() / 16 + 1 + data.len() % 7));
    let mut out = Output::default();
    let (understood, _) = whole;
    understood.iter().for_each(|message| message.write(&mut out));
    let (again, ended) = messages(&out.take(), usize::MAX);
    assert_eq!((again, ended), (understood, None));
}

/// The messages before the first mistake, and the mistake.
fn messages(data: &[u8], piece: usize) -> (Vec<Message>, Option<String>) {
    let (mut input, mut reassembly, mut messages) = (BytesMut::new(), Reassembly::new(MOST), Vec::new());
    for piece in data.chunks(piece) {
        input.extend_from_slice(piece);
        loop {
            let next = match take_frame(&mut input, MOST) {
                Ok(None) => break,
                Ok(Some(bytes)) => Frame::read(bytes).and_then(|frame| reassembly.take(frame)),
                Err(bad) => return (messages, Some(bad.to_string())),
            };
            assert!(reassembly.bytes() <= MOST);
            match next.and_then(|whole| whole.map(Message::read).transpose()) {
                Ok(message) => messages.extend(message),
                Err(bad) => return (messages, Some(bad.to_string())),
            }
        }
    }
    (messages, None)
}
