//! `rosterd_watches`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Ledger, Standing};

/// The figures of a ledger.
#[derive(Debug)]
pub struct LedgerFigures(pub Ledger);

impl Collector for LedgerFigures {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let counts = self.0.counts();
        let help = "Watches of routers by how they stand; those that are stopped need their router restarted";
        let mut family = to.encode_descriptor("watches", help, None, MetricType::Gauge)?;
        for standing in Standing::ALL {
            let labels = [("state", standing.name())];
            let count = i64::try_from(counts.of(standing)).unwrap_or(i64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
