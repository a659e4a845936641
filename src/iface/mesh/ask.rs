//! What calls ask: requests read, and answered once or as streams.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use super::frames::framed;
use super::method::{Code, Method, Status};
use super::watching::Source;
use super::{PATIENCE, Server};
use crate::interpreter::{DelegateRequest, Hold, LocalDtab};
use crate::mesh::read::Invalid;
use crate::mesh::{proto, read, show};
use crate::name::{Dtab, Path};
use crate::store::{Client, State, Unanswered, Watch};

/// The stack for a tree of the greatest depth there is, of 400 levels, and for encoding it.
const DEEP: usize = 4 << 20;

/// So long an id that is asked for once may take to become known, before it is said to be pending.
const MOMENT: Duration = Duration::from_secs(1);

/// The answer to a call.
pub(super) enum Answer {
    /// One message, and the end.
    Once(Bytes),
    /// Messages as something changes.
    Watch(Source),
}

/// The health of a server is asked with a name of a service that is passed over: all there are share their fate.
#[derive(Clone, PartialEq, prost::Message)]
struct Health {
    /// `SERVING` = 1
    #[prost(int32, optional, tag = "1")]
    status: Option<i32>,
}

/// Answers a call.
pub(super) async fn answer(server: &Server, client: Client, method: Method, body: Bytes) -> Result<Answer, Status> {
    Ok(match method {
        Method::GetBoundTree => {
            let watch = server.binding(client, &decode(body)?, Hold::Once)?;
            let (tree, _) = watch.answer(PATIENCE).await.map_err(unanswered)?;
            once(&show::bound_tree(&tree))
        }
        Method::StreamBoundTree => Answer::Watch(Source::Tree(server.binding(client, &decode(body)?, Hold::Watch)?)),
        Method::GetReplicas => match server.addresses(client, &decode(body)?)? {
            None => once(&show::failed("No ID provided")),
            Some(watch) => {
                // The state of this moment, once whoever knows it has had the time to say so.
                drop(watch.answer(MOMENT).await);
                match watch.current().state {
                    State::Ready(addr) => once(&show::addresses(Some(&addr))),
                    State::Failed(reason) => once(&show::failed(&reason)),
                    State::Pending => once(&show::addresses(None)),
                }
            }
        },
        Method::StreamReplicas => match server.addresses(client, &decode(body)?)? {
            None => once(&show::failed("No ID provided")),
            Some(watch) => Answer::Watch(Source::Addr(watch)),
        },
        Method::GetDtab => {
            let (stored, _) = server.dtab(client, &decode(body)?)?.answer(PATIENCE).await.map_err(unanswered)?;
            let stored = Option::as_ref(&stored).ok_or_else(root_not_found)?;
            once(&show::versioned_dtab(stored))
        }
        Method::StreamDtab => Answer::Watch(Source::Dtab(server.dtab(client, &decode(body)?)?)),
        Method::GetDelegateTree | Method::StreamDelegateTree => {
            Answer::Once(server.delegation(client, decode(body)?).await?)
        }
        Method::ReadDtab => {
            let text = decode::<proto::ReadDtabReq>(body)?.text.unwrap_or_default();
            let dtab = server.names.dtab(&text).map_err(|error| Status::new(Code::InvalidArgument, error))?;
            once(&proto::ReadDtabRsp { dtab: Some(show::dtab(&dtab)) })
        }
        Method::ShowDtab => {
            let dtab = decode::<proto::ShowDtabReq>(body)?.dtab;
            let text = dtab.map(|dtab| server.read_dtab(&dtab)).transpose()?.map(|dtab| dtab.to_string());
            once(&proto::ShowDtabRsp { text })
        }
        Method::ReadPath => {
            let text = decode::<proto::ReadPathReq>(body)?.text.unwrap_or_default();
            let path = match &*text {
                "" => Path::empty(),
                text => server.names.path(text).map_err(|error| Status::new(Code::InvalidArgument, error))?,
            };
            once(&proto::ReadPathRsp { path: Some(show::path(&path)) })
        }
        Method::ShowPath => {
            let path = decode::<proto::ShowPathReq>(body)?.path;
            let text = path.map(|path| server.read_path(&path)).transpose()?.map(|path| path.to_string());
            once(&proto::ShowPathRsp { text })
        }
        Method::Check => once(&Health { status: Some(1) }),
    })
}

fn once(message: &impl Message) -> Answer {
    Answer::Once(framed(message))
}

fn decode<M: Message + Default>(body: Bytes) -> Result<M, Status> {
    M::decode(body).map_err(|error| Status::new(Code::InvalidArgument, error))
}

fn unanswered(error: Unanswered) -> Status {
    match error {
        Unanswered::Failed(reason) => Status::new(Code::Internal, reason),
        timed_out @ Unanswered::TimedOut { .. } => Status::new(Code::Unavailable, timed_out),
    }
}

pub(super) fn root_not_found() -> Status {
    Status::new(Code::NotFound, "Root not found")
}

/// The namespace that a root stands for (`InterpreterService.scala:35-48`).
fn namespace(root: &Path) -> Result<String, Status> {
    match root.first() {
        Some(first) if root.len() == 1 => Ok(String::from_utf8_lossy(first).into_owned()),
        _ => {
            let text = format!("Invalid root: `{root}` must have exactly one segment");
            Err(Status::new(Code::InvalidArgument, text))
        }
    }
}

fn no_namespace() -> Status {
    Status::new(Code::InvalidArgument, "No namespace specified")
}

fn no_name() -> Status {
    Status::new(Code::NotFound, "No name given")
}

// === impl Server ===

impl Server {
    fn binding(
        &self,
        client: Client,
        request: &proto::BindReq,
        hold: Hold,
    ) -> Result<Watch<crate::interpreter::BoundTree>, Status> {
        // namerd looks in this order.
        let root = request.root.as_ref().ok_or_else(no_namespace)?;
        let name = request.name.as_ref().filter(|name| !name.elems.is_empty()).ok_or_else(no_name)?;
        let namespace = namespace(&self.read_path(root)?)?;
        let (name, local) = (self.read_path(name)?, self.local(client, request.dtab.as_ref())?);
        Ok(self.interpreter.bind(client, &namespace, &local, &name, hold)?)
    }

    fn local(&self, client: Client, dtab: Option<&proto::Dtab>) -> Result<LocalDtab, Status> {
        let dtab = dtab.map(|dtab| self.read_dtab(dtab)).transpose()?.unwrap_or_default();
        Ok(self.interpreter.local_dtab(client, dtab)?)
    }

    /// None without an id.
    fn addresses(
        &self,
        client: Client,
        request: &proto::ReplicasReq,
    ) -> Result<Option<Watch<crate::name::Addr>>, Status> {
        let Some(id) = request.id.as_ref().filter(|id| !id.elems.is_empty()) else { return Ok(None) };
        Ok(Some(self.interpreter.addr(client, &self.read_path(id)?)?))
    }

    fn dtab(
        &self,
        client: Client,
        request: &proto::DtabReq,
    ) -> Result<Watch<Option<crate::storage::VersionedDtab>>, Status> {
        let root = request.root.as_ref().ok_or_else(no_namespace)?;
        let namespace = namespace(&self.read_path(root)?)?;
        Ok(self.interpreter.dtab(client, &namespace)?)
    }

    async fn delegation(&self, client: Client, request: proto::DelegateTreeReq) -> Result<Bytes, Status> {
        let root = request.root.as_ref().ok_or_else(no_namespace)?;
        let tree = request.tree.as_ref().ok_or_else(no_name)?;
        let namespace = namespace(&self.read_path(root)?)?;
        let tree = self.counted(read::tree(tree, self.names.limits()))?;
        let local = request.dtab.as_ref().map(|dtab| self.read_dtab(dtab)).transpose()?.unwrap_or_default();
        let (with_addresses, with_namers) = (false, true);
        let asked = DelegateRequest { client, namespace: Some(namespace), local, tree, with_addresses, with_namers };
        let delegation = self.interpreter.delegate(asked, PATIENCE).await.map_err(unanswered)?;
        let shown = crate::runtime::heavy(move || {
            stacker::maybe_grow(DEEP, DEEP, || framed(&show::delegation(&delegation.tree)))
        });
        shown.await.ok_or_else(|| Status::new(Code::Internal, "the explanation could not be written"))
    }

    fn read_path(&self, path: &proto::Path) -> Result<Path, Status> {
        self.counted(read::path(path, self.names.limits()))
    }

    fn read_dtab(&self, dtab: &proto::Dtab) -> Result<Dtab, Status> {
        self.names.fits(dtab.encoded_len()).map_err(|reason| Status::new(Code::InvalidArgument, reason))?;
        self.counted(read::dtab(dtab, self.names.limits()))
    }

    fn counted<T>(&self, read: Result<T, Invalid>) -> Result<T, Status> {
        if let Some(limit) = read.as_ref().err().and_then(|invalid| invalid.limit) {
            self.names.refused(limit);
        }
        Ok(read?)
    }
}
