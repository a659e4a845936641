//! The life of the process: ports, parts, serving, the way out.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::figures::{register, register_tls};
use super::ledger::KeptLedger;
use super::limits::Limits;
use super::place::{Place, Start};
use super::{Config, Parts};
use crate::admin::{self, AdminState, LedgerAccess, Pages};
use crate::iface::thrift::PING_SILENCE;
use crate::iface::{Core, IfaceMetrics, Sessions};
use crate::ledger::LedgerFigures;
use crate::runtime::logs::LogControl;
use crate::runtime::{
    Connections, Drain, Endpoint, Plan, Readiness, Watchdog, drain_all, handle_signals, raise_descriptor_limit,
    tell_supervisor, tls,
};
use crate::telemetry::{Legacy, MetricsSetup, Process, ServerStats};

/// How long a silent storage may hold readiness back.
const STORAGE_PATIENCE: Duration = Duration::from_secs(5);

/// Stack of the runtime's threads: room for what a configuration or a dtab may nest.
const STACK: usize = 4 << 20;

/// Serves a configuration until the process is told to end. True after a clean drain; false if something could not be
/// started, or a client not be answered in time.
pub fn run(config: Config, logs: LogControl, start: Start) -> bool {
    let process = Process::new();
    tracing::info!("rosterd {}", env!("CARGO_PKG_VERSION"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build();
    let served = match runtime {
        Ok(runtime) => runtime.block_on(serve(config, logs, process, start)),
        Err(error) => Err(format!("cannot start threads: {error}")),
    };
    served.unwrap_or_else(|problem| {
        tracing::error!("{problem}");
        false
    })
}

async fn serve(config: Config, logs: LogControl, process: Process, start: Start) -> Result<bool, String> {
    let descriptors = raise_descriptor_limit();
    // Every port before any work: a start that fails must not have touched a backend.
    let endpoints: Vec<Endpoint> = std::iter::once(admin_endpoint(&config))
        .chain(config.interfaces.iter().enumerate().map(|(place, interface)| interface.endpoint(place)))
        .collect();
    let tls: Vec<Arc<tls::Server>> = endpoints.iter().filter_map(|endpoint| endpoint.tls.clone()).collect();
    let (place, listeners) = Place::take(endpoints, config.own.state_dir.as_deref(), start).await?;
    let mut listeners = listeners.into_iter();
    let admin_listener = listeners.next().ok_or("no listener for the admin server")?;
    let readiness = Readiness::new();
    let started = readiness.pending("start");
    let legacy = Legacy::default();
    let parts = Parts::build(&config, &legacy, place.files())?;
    let Config { admin, storage, namers: _, interfaces, telemetry, own, interpreter: _, shown } = config;

    let drain = Drain::new();
    let _signals = handle_signals(drain.clone()).map_err(|error| format!("cannot handle signals: {error}"))?;
    let _watchdog = Watchdog::start();
    let answered = parts.storage.clone();
    let kind = storage.as_ref().map_or("of a relay", |storage| storage.kind);
    let _storage = readiness.await_at_most(format!("storage {kind}"), STORAGE_PATIENCE, async move {
        answered.answered().await;
    });

    let ledger = KeptLedger::start(&own, place.files()).await?;
    let limits = Limits::new(&own.limits, descriptors);
    let admin_connections = Connections::new(admin::MOST_CONNECTIONS);
    let mut metrics = MetricsSetup::new(legacy.clone());
    process.register(&mut metrics);
    register(&mut metrics, &parts, &readiness, &limits, &admin_connections);
    register_tls(&mut metrics, &readiness, &tls);
    metrics.own.register_collector(Box::new(LedgerFigures(ledger.ledger.clone())));
    let _certificates = tls::keep_current(tls);
    let core = Core {
        interpreter: parts.interpreter.clone(),
        storage: parts.storage.clone(),
        names: limits.names.clone(),
        body_bytes: limits.body_bytes,
        rate: limits.rate.clone(),
        limits: limits.counts.clone(),
        fixes: own.fixes,
        sessions: Sessions {
            max_poll_age: own.max_poll_age,
            watches: own.limits.watches_per_connection as usize,
            spread: own.drain.spread,
            ping_silence: own.drain.ping_silence,
        },
        connections: limits.connections.clone(),
        drain: drain.clone(),
        ledger: ledger.ledger.clone(),
        legacy: legacy.clone(),
        metrics: IfaceMetrics::register(&mut metrics.own),
    };
    let silence = if own.drain.ping_silence { PING_SILENCE } else { Duration::ZERO };
    let plan = Plan {
        lame_duck: own.drain.lame_duck,
        spread: own.drain.spread + silence,
        silence: PING_SILENCE - silence,
        grace: admin.shutdown_grace,
    };
    plan.announce();

    let mut pages = Pages::default().with_namers(parts.local.namers()).with_storage(&parts.storage);
    if let Some((kind, relay)) = &parts.relay {
        let upstream = relay.interpreter.upstream().clone();
        pages.add(format!("/interpreter_state/{kind}.json"), move || Some(upstream.page()));
    }
    pages.add("/limits.json".to_owned(), limits.page());
    if let Some(files) = place.files().cloned() {
        readiness.watch("files", move || files.degradation());
    }
    let place = place.ready(&readiness, started, parts.storage.answered(), &drain).await?;
    admin_listener.announce();
    let admin = admin::serve(
        admin_listener,
        AdminState {
            readiness: readiness.clone(),
            logs,
            metrics: metrics.finish(),
            telemeters: telemetry.into_iter().map(|block| block.config).collect(),
            config: shown,
            process,
            pages,
            interpreter: core.interpreter.clone(),
            names: core.names.clone(),
            body_bytes: core.body_bytes,
            limits: core.limits.clone(),
            ledger: ledger.ledger.clone(),
            peers: ledger.peers.clone(),
            ledger_access: LedgerAccess { token: own.ledger.token.clone(), over_tls: admin.tls.is_some() },
            security: admin.security,
            socket_options: admin.socket_options,
            connections: admin_connections,
            stats: ServerStats::new(legacy.scope("adminhttp")),
        },
        drain.clone(),
    );
    let mut servers = JoinSet::new();
    for (interface, listener) in interfaces.iter().zip(listeners) {
        listener.announce();
        servers.spawn(interface.serve(&core, listener));
    }
    drop(core);
    let _place = place.settle(drain.clone());
    let _supervisor = tell_supervisor(readiness.clone(), drain.clone());
    let clean = drain_all(&drain, plan, &readiness, servers, admin).await;
    ledger.finish().await;
    if let Some((_, relay)) = &parts.relay {
        relay.save().await;
    }
    if let Some(state_dir) = &parts.state_dir {
        state_dir.end();
    }
    Ok(clean)
}

fn admin_endpoint(config: &Config) -> Endpoint {
    let admin = &config.admin;
    let (key, options) = ("admin".to_owned(), admin.socket_options.clone());
    let tls = admin.tls.clone().map(|loaded| tls::Server::new(key.clone(), loaded));
    let what = if tls.is_some() { "https" } else { "http" };
    Endpoint { what: what.to_owned(), key, address: admin.address, options, tls }
}
