//! Streams: the current value, then the newest one each time that the client has room for it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ask::root_not_found;
use super::frames::{Answering, Gone, framed};
use super::method::{Code, Method, Status};
use super::{PATIENCE, Server};
use crate::interpreter::BoundTree;
use crate::mesh::show;
use crate::name::Addr;
use crate::storage::VersionedDtab;
use crate::store::{Cell, Key, Mailbox, Snapshot, State, Watch};

const VALUE: Key = Key(0);
const LEAVE: Key = Key(1);

/// At most so many messages are kept for others who are sent the same, in each of two generations.
const MOST: usize = 1024;

/// What a stream follows.
pub(super) enum Source {
    Tree(Watch<BoundTree>),
    Addr(Watch<Addr>),
    Dtab(Watch<Option<VersionedDtab>>),
}

/// What a message is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Form {
    Tree,
    Addr,
    Dtab,
}

/// Messages by the versions of their values, which are never used twice in a process.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    generations: Mutex<[HashMap<(Form, u64), Bytes>; 2]>,
}

/// What a stream is to do about a value.
enum Step<T> {
    Send(Bytes, Option<Arc<T>>),
    Wait,
    End(Status),
}

/// Follows `source` until the client has enough, or `leaving` says that the server goes.
pub(super) async fn follow(
    server: &Server,
    method: Method,
    source: Source,
    answering: Answering,
    leaving: Arc<Cell<bool>>,
) -> Result<(), Gone> {
    match source {
        Source::Tree(watch) => {
            let message = |tree: &BoundTree| Ok(framed(&show::bound_tree(tree)));
            values(server, method, Form::Tree, watch, answering, leaving, message).await
        }
        Source::Addr(watch) => {
            let message = |addr: &Addr| Ok(framed(&show::addresses(Some(addr))));
            values(server, method, Form::Addr, watch, answering, leaving, message).await
        }
        Source::Dtab(watch) => {
            let message = |stored: &Option<VersionedDtab>| match stored {
                Some(stored) => Ok(framed(&show::versioned_dtab(stored))),
                None => Err(root_not_found()),
            };
            values(server, method, Form::Dtab, watch, answering, leaving, message).await
        }
    }
}

async fn values<T: PartialEq + Send + Sync + 'static>(
    server: &Server,
    method: Method,
    form: Form,
    watch: Watch<T>,
    mut answering: Answering,
    leaving: Arc<Cell<bool>>,
    message: impl Fn(&T) -> Result<Bytes, Status>,
) -> Result<(), Gone> {
    let _open = server.metrics.stream(method);
    let mailbox = Mailbox::new();
    let (_, _subscription) = watch.subscribe(&mailbox, VALUE);
    let (_, _leaving) = leaving.subscribe(&mailbox, LEAVE);
    let (mut sent, mut told, mut said_pending, mut marked) = (None::<Arc<T>>, None, false, Vec::new());
    let until = Instant::now() + PATIENCE;
    loop {
        if matches!(leaving.snapshot().state, State::Ready(leaving) if *leaving) {
            return end(server, method, answering, &Status::new(Code::Unavailable, "the server is going away"));
        }
        let snapshot = watch.cell().snapshot();
        let step = match told == Some(snapshot.version) {
            true => Step::Wait,
            false => step(server, form, &snapshot, sent.as_ref(), &message),
        };
        match step {
            Step::Send(bytes, value) => {
                // A client that has gone is no reason to wait for room.
                answering.message(bytes, server.stall).await?;
                server.metrics.message(method);
                (sent, told) = (value.or(sent), Some(snapshot.version));
                continue; // there may be a newer one by now
            }
            Step::Wait if form == Form::Addr && told.is_none() && !said_pending => {
                said_pending = true;
                answering.message(framed(&show::addresses(None)), server.stall).await?;
                server.metrics.message(method);
                continue;
            }
            Step::Wait => {}
            Step::End(status) => return end(server, method, answering, &status),
        }
        let impatient = sent.is_none() && form != Form::Addr;
        tokio::select! {
            () = mailbox.marked() => mailbox.take_marked(&mut marked),
            () = answering.reset() => return Err(Gone::Client),
            () = tokio::time::sleep_until(until), if impatient => {
                let text = format!("no answer within {} s", PATIENCE.as_secs());
                return end(server, method, answering, &Status::new(Code::Unavailable, text));
            }
        }
    }
}

fn step<T: PartialEq>(
    server: &Server,
    form: Form,
    snapshot: &Snapshot<T>,
    sent: Option<&Arc<T>>,
    message: impl Fn(&T) -> Result<Bytes, Status>,
) -> Step<T> {
    match &snapshot.state {
        State::Ready(value) if sent == Some(value) => Step::Wait,
        State::Ready(value) => match server.encoded.get(form, snapshot.version.get(), || message(value)) {
            Ok(bytes) => Step::Send(bytes, Some(value.clone())),
            Err(status) => Step::End(status),
        },
        State::Pending => Step::Wait,
        // Of addresses it is a state like others, and the stream goes on.
        State::Failed(reason) if form == Form::Addr => {
            let failed = server.encoded.get(form, snapshot.version.get(), || Ok(framed(&show::failed(reason))));
            failed.map_or_else(Step::End, |bytes| Step::Send(bytes, None))
        }
        State::Failed(reason) => Step::End(Status::new(Code::Internal, reason)),
    }
}

fn end(server: &Server, method: Method, answering: Answering, status: &Status) -> Result<(), Gone> {
    server.metrics.ended(Some(method), status.code as u8);
    answering.end(status);
    Ok(())
}

// === impl Encoded ===

impl Encoded {
    /// The message of this version; `make` is asked for it if it is not there.
    fn get(&self, form: Form, version: u64, make: impl FnOnce() -> Result<Bytes, Status>) -> Result<Bytes, Status> {
        let key = (form, version);
        {
            let mut generations = self.generations.lock();
            if let Some(bytes) = generations[0].get(&key) {
                return Ok(bytes.clone());
            }
            if let Some(bytes) = generations[1].remove(&key) {
                generations[0].insert(key, bytes.clone());
                return Ok(bytes);
            }
        }
        // Not under the lock. Two who make the same do no harm.
        let bytes = make()?;
        let [young, old] = &mut *self.generations.lock();
        if young.len() >= MOST {
            *old = std::mem::take(young);
        }
        young.insert(key, bytes.clone());
        Ok(bytes)
    }
}
