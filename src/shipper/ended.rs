//! Why a stream to a collector ended: in words for people, and by the closed list of reasons that the metrics have.

use crate::grpc::StreamError;
use crate::metrics::own::StreamFailed;
use std::time::Duration;

/// See the head of this file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("cannot connect: {0}")]
    Connect(String),
    #[error("no connection within {0:?}")]
    ConnectLate(Duration),
    #[error("no answer to the hello within {0:?}: it may be frozen, overloaded or cut off")]
    HelloLate(Duration),
    #[error("a batch was not acknowledged within {0:?}: it may be frozen, overloaded or cut off")]
    BatchLate(Duration),
    #[error("it refused the hello: {0}")]
    Old(String),
    #[error("a new epoch began, which ends all streams")]
    NewEpoch,
    #[error("it answered out of turn")]
    OutOfTurn,
    #[error("it leaves")]
    Bye,
    #[error("its age")]
    Age,
}

impl Ended {
    /// The reason it is counted under; `None` where a stream ended as it should.
    pub(super) fn failed(&self) -> Option<StreamFailed> {
        use StreamFailed as F;
        Some(match self {
            Ended::Bye | Ended::Age => return None,
            Ended::Connect(_) | Ended::ConnectLate(_) => F::Connect,
            Ended::HelloLate(_) => F::HelloLate,
            Ended::BatchLate(_) => F::BatchLate,
            Ended::Old(_) => F::HelloOld,
            Ended::NewEpoch => F::NewEpoch,
            Ended::OutOfTurn => F::Unreadable,
            Ended::Stream(error) => error.failed(),
        })
    }
}

/// Whether the collector refuses what it is sent: trying again will not help, somebody has to do something.
pub(super) fn is_refusal(failed: StreamFailed) -> bool {
    use StreamFailed as F;
    matches!(failed, F::HelloOld | F::Incompatible | F::Full | F::DataLoss | F::Foreign | F::Malformed | F::Unreadable)
}
