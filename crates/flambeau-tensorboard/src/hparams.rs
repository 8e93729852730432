//! Hyper-parameters of a run and what came of them.

use crate::proto::*;
use crate::summary::{plugin, value};
use flambeau_core::{Result, ensure};
use prost::Message;

/// The value of a hyper-parameter. A bool is a number here, as in PyTorch.
///
/// ```
/// use torch::utils::tensorboard::HParam;
/// assert_eq!([HParam::from(0.1), true.into(), "adam".into()], [
///     HParam::Number(0.1),
///     HParam::Number(1.0),
///     HParam::Text("adam".into()),
/// ]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum HParam {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}
macro_rules! from {
    ($($t:ty => |$v:ident| $made:expr;)*) => {$(impl From<$t> for HParam {
        fn from($v: $t) -> HParam {
            $made
        }
    })*};
}
from! {
    f64 => |v| HParam::Number(v);
    f32 => |v| HParam::Number(f64::from(v));
    i32 => |v| HParam::Number(f64::from(v));
    i64 => |v| HParam::Number(v as f64);
    usize => |v| HParam::Number(v as f64);
    bool => |v| HParam::Number(f64::from(u8::from(v)));
    &str => |v| HParam::Text(v.into());
    String => |v| HParam::Text(v);
}
impl HParam {
    fn plain(&self) -> Plain {
        match self {
            HParam::Number(n) => Plain { number_value: Some(*n), ..Plain::default() },
            HParam::Text(t) => Plain { string_value: Some(t.clone()), ..Plain::default() },
        }
    }
    fn data_type(&self) -> i32 {
        match self {
            HParam::Number(_) => HPARAM_FLOAT,
            HParam::Text(_) => HPARAM_STRING,
        }
    }
}

/// Options of [`add_hparams`](crate::SummaryWriter::add_hparams).
#[derive(Clone, Debug, Default)]
pub struct HParamOptions {
    domains: Vec<(String, Vec<HParam>)>,
    pub(crate) run_name: Option<String>,
    pub(crate) global_step: Option<i64>,
}
impl HParamOptions {
    /// A run named by the time.
    pub fn new() -> Self {
        Self::default()
    }
    /// The values that a hyper-parameter may have.
    pub fn domain<V: Into<HParam>>(mut self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        self.domains.push((name.into(), values.into_iter().map(Into::into).collect()));
        self
    }
    /// The folder of the run, below the writer's.
    pub fn run_name(mut self, name: impl Into<String>) -> Self {
        self.run_name = Some(name.into());
        self
    }
    /// The step of the metrics.
    pub fn global_step(mut self, step: i64) -> Self {
        self.global_step = Some(step);
        self
    }
}

/// The experiment, the beginning of the run, its end.
pub fn make(hparams: &[(String, HParam)], metrics: &[String], o: &HParamOptions) -> Result<[Value; 3]> {
    for (name, domain) in &o.domains {
        let of = hparams.iter().find(|h| h.0 == *name);
        let fits = of.is_some_and(|(_, v)| domain.iter().all(|d| d.data_type() == v.data_type()));
        ensure!(
            fits,
            Type,
            "parameter: hparam_domain_discrete[{name}] should be a list of same type as hparam_dict[{name}]."
        );
    }
    let info = |(name, v): &(String, HParam)| HParamInfo {
        name: name.clone(),
        r#type: v.data_type(),
        domain_discrete: o
            .domains
            .iter()
            .find(|d| d.0 == *name)
            .map(|(_, values)| PlainList { values: values.iter().map(HParam::plain).collect() }),
    };
    let experiment = Experiment {
        hparam_infos: hparams.iter().map(info).collect(),
        metric_infos: metrics
            .iter()
            .map(|tag| MetricInfo { name: Some(MetricName { tag: tag.clone() }) })
            .collect(),
    };
    let start = SessionStartInfo { hparams: hparams.iter().map(|(k, v)| (k.clone(), v.plain())).collect() };
    let made = |tag: &str, data: HParamsPluginData| Value {
        metadata: plugin("hparams", data.encode_to_vec()),
        ..value(tag)
    };
    let none = HParamsPluginData::default;
    let end = SessionEndInfo { status: SUCCESS };
    Ok([
        made("_hparams_/experiment", HParamsPluginData { experiment: Some(experiment), ..none() }),
        made("_hparams_/session_start_info", HParamsPluginData { session_start_info: Some(start), ..none() }),
        made("_hparams_/session_end_info", HParamsPluginData { session_end_info: Some(end), ..none() }),
    ])
}
