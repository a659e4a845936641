//! The methods of the four services, and how calls of them end.

use std::fmt;

use crate::mesh::read::Invalid;
use crate::store::OverBudget;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    GetBoundTree,
    StreamBoundTree,
    GetReplicas,
    StreamReplicas,
    GetDtab,
    StreamDtab,
    GetDelegateTree,
    StreamDelegateTree,
    ReadDtab,
    ShowDtab,
    ReadPath,
    ShowPath,
    /// `grpc.health.v1.Health/Check`
    Check,
}

/// The statuses of gRPC that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Ok = 0,
    Unknown = 2,
    InvalidArgument = 3,
    NotFound = 5,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

/// How a call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
}

// === impl Method ===

impl Method {
    pub(super) const ALL: [Self; 13] = [
        Self::GetBoundTree,
        Self::StreamBoundTree,
        Self::GetReplicas,
        Self::StreamReplicas,
        Self::GetDtab,
        Self::StreamDtab,
        Self::GetDelegateTree,
        Self::StreamDelegateTree,
        Self::ReadDtab,
        Self::ShowDtab,
        Self::ReadPath,
        Self::ShowPath,
        Self::Check,
    ];

    /// By the path of a request.
    pub(super) fn of(path: &str) -> Option<Self> {
        let (service, name) = path.strip_prefix('/')?.split_once('/')?;
        Self::ALL.into_iter().find(|method| method.name() == name && method.service() == service)
    }

    fn service(self) -> &'static str {
        match self {
            Self::GetBoundTree | Self::StreamBoundTree => "io.linkerd.mesh.Interpreter",
            Self::GetReplicas | Self::StreamReplicas => "io.linkerd.mesh.Resolver",
            Self::GetDtab | Self::StreamDtab | Self::GetDelegateTree | Self::StreamDelegateTree => {
                "io.linkerd.mesh.Delegator"
            }
            Self::ReadDtab | Self::ShowDtab | Self::ReadPath | Self::ShowPath => "io.linkerd.mesh.Codec",
            Self::Check => "grpc.health.v1.Health",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::GetBoundTree => "GetBoundTree",
            Self::StreamBoundTree => "StreamBoundTree",
            Self::GetReplicas => "GetReplicas",
            Self::StreamReplicas => "StreamReplicas",
            Self::GetDtab => "GetDtab",
            Self::StreamDtab => "StreamDtab",
            Self::GetDelegateTree => "GetDelegateTree",
            Self::StreamDelegateTree => "StreamDelegateTree",
            Self::ReadDtab => "ReadDtab",
            Self::ShowDtab => "ShowDtab",
            Self::ReadPath => "ReadPath",
            Self::ShowPath => "ShowPath",
            Self::Check => "Check",
        }
    }
}

// === impl Status ===

impl Status {
    pub(super) const OK: Self = Self { code: Code::Ok, message: String::new() };

    pub(super) fn new(code: Code, message: impl fmt::Display) -> Self {
        Self { code, message: message.to_string() }
    }
}

impl From<Invalid> for Status {
    fn from(invalid: Invalid) -> Self {
        Self::new(Code::InvalidArgument, invalid)
    }
}

impl From<OverBudget> for Status {
    fn from(over: OverBudget) -> Self {
        Self::new(Code::ResourceExhausted, over)
    }
}
