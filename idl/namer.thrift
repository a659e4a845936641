// The service by which Linkerd 1 asks for names (namerd's interpreter interface, port 4100), and clients of any other
// kind that speak framed Thrift in the binary protocol, strict or not.
//
// A client keeps one call open for each thing that it watches. It sends the stamp of the answer it has; the server
// answers when it has another one. An empty stamp asks for what there is.

namespace rs namer

// Which value an answer is about. Opaque: clients compare it and send it back.
typedef binary Stamp

// A name: its elements without slashes. None of them is empty.
typedef list<binary> Path

// The name of a dtab.
typedef string Ns

// A delegation table in its shown form: /svc => /host ; /host => /#/io.l5d.fs
typedef string Dtab

// A member of a union that says everything by being set.
struct Void {}

// A name in a namespace, with the stamp of what the client knows about it.
struct NameRef {
  1: Stamp stamp
  2: Path name
  3: Ns ns
}

// A concrete name.
struct BoundName {
  // What to ask `addr` for, byte for byte.
  1: Path id
  // What no namer consumed.
  2: Path residual
}

struct WeightedNodeId {
  1: double weight
  2: i32 id
}

// Exactly one member is set. Numbers are keys of the map `nodes`.
union BoundNode {
  1: Void neg
  2: Void empty
  3: Void fail
  4: BoundName leaf
  5: list<i32> alt
  6: list<WeightedNodeId> weighted
}

struct BoundTree {
  1: BoundNode root
  2: map<i32, BoundNode> nodes
}

struct BindReq {
  // Entries that come after those of the namespace, and therefore win.
  1: Dtab dtab
  2: NameRef name
  // Ignored.
  3: Path clientId
}

struct Bound {
  1: Stamp stamp
  2: BoundTree tree
  3: Ns ns
}

exception BindFailure {
  1: string reason
  // Always 0.
  2: i32 retryInSeconds
  // The name of the request, as it came.
  3: NameRef name
  4: Ns ns
}

struct AddrReq {
  // A bound id. The namespace does not matter.
  1: NameRef name
  // Ignored.
  2: Path clientId
}

struct AddrMeta {
  1: optional string authority
  2: optional string nodeName
  3: optional double endpoint_addr_weight
}

struct TransportAddress {
  // 4 or 16 bytes.
  1: binary ip
  2: i32 port
  3: optional AddrMeta meta
}

struct BoundAddr {
  1: set<TransportAddress> addresses
  2: optional AddrMeta meta
}

union AddrVal {
  1: BoundAddr bound
  2: Void neg
}

struct Addr {
  1: Stamp stamp
  2: AddrVal value
}

exception AddrFailure {
  1: string reason
  // Always 0.
  2: i32 retryInSeconds
  // The name of the request, as it came.
  3: NameRef name
}

struct Transformation {
  // The name before the transformation.
  1: BoundName value
  2: i32 tree
}

// Exactly one member is set. Numbers are keys of the map `nodes`.
union DelegateContents {
  1: string error
  2: Void empty
  3: Void fail
  4: Void neg
  5: i32 delegate
  6: BoundName boundLeaf
  7: Path pathLeaf
  8: list<i32> alt
  9: list<WeightedNodeId> weighted
  10: Transformation transformation
}

struct DelegateNode {
  // What was looked up.
  1: Path path
  // The entry that led here, or the name of a transformer.
  2: string dentry
  3: DelegateContents contents
}

struct DelegateTree {
  1: DelegateNode root
  2: map<i32, DelegateNode> nodes
}

// A name to explain, and its explanation.
struct Delegation {
  // Empty in a request, or it is never answered; 1 in every answer.
  1: Stamp stamp
  2: DelegateTree tree
  3: Ns ns
}

struct DelegateReq {
  // Entries that come after those of the namespace, and therefore win.
  1: Dtab dtab
  2: Delegation delegation
  // Ignored.
  3: Path clientId
}

exception DelegationFailure {
  1: string reason
}

struct DtabReq {
  1: Stamp stamp
  2: Ns ns
  // Ignored.
  3: Path clientId
}

struct DtabRef {
  1: Stamp stamp
  // Empty when there is no such namespace.
  2: Dtab dtab
}

exception DtabFailure {
  1: string reason
}

service Namer {
  // What a name is bound to. A long poll.
  Bound bind(1: BindReq req) throws (1: BindFailure rf)

  // The addresses of a bound name. A long poll.
  Addr addr(1: AddrReq req) throws (1: AddrFailure af)

  // How a name was looked up, with all alternatives. Answered once.
  Delegation delegate(1: DelegateReq req) throws (1: DelegationFailure df)

  // The dtab of a namespace. A long poll.
  DtabRef dtab(1: DtabReq req) throws (1: DtabFailure df)
}
