//! Older points on the wire.

use super::{WireError, pb, text};
use crate::message::{BequeathedTask, Bequest, Run};
use crate::model::{NodeId, TaskId, Values};

impl From<&Bequest> for pb::Bequest {
    fn from(bequest: &Bequest) -> Self {
        let run = |run: &Run| pb::Run {
            from_ns: run.from,
            read_ns: run.read_at,
            values: run.values.as_ref().map(pb::Values::from),
        };
        let task = |task: &BequeathedTask| pb::BequeathedTask {
            task_id: task.task_id.to_string(),
            container_id: task.container_id.to_string(),
            started_at_ms: task.started_at,
            runs: task.runs.iter().map(run).collect(),
        };
        pb::Bequest {
            node_id: bequest.node_id.to_string(),
            epoch: bequest.epoch,
            rounds_ns: bequest.rounds.clone(),
            tasks: bequest.tasks.iter().map(task).collect(),
        }
    }
}

impl TryFrom<pb::Bequest> for Bequest {
    type Error = WireError;
    fn try_from(bequest: pb::Bequest) -> Result<Self, WireError> {
        let run = |run: pb::Run| {
            let values = run.values.map(Values::try_from).transpose()?;
            Ok::<_, WireError>(Run { from: run.from_ns, read_at: run.read_ns, values })
        };
        let task = |task: pb::BequeathedTask| {
            Ok::<_, WireError>(BequeathedTask {
                task_id: TaskId::new(task.task_id)?,
                container_id: text("container id", task.container_id)?,
                started_at: task.started_at_ms,
                runs: task.runs.into_iter().map(run).collect::<Result<_, _>>()?,
            })
        };
        Ok(Bequest {
            node_id: NodeId::new(bequest.node_id)?,
            epoch: bequest.epoch,
            rounds: bequest.rounds_ns,
            tasks: bequest.tasks.into_iter().map(task).collect::<Result<_, _>>()?,
        })
    }
}
