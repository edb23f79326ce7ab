//! Connections to other processes, and asking them who they are.

use crate::config::Address;
use crate::discovery::Identity;
use crate::model::{Gen, MemberId, NodeId, RingId};
use crate::view::{MemberState, Standing};
use crate::wire::pb;
use std::time::Duration;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

const CONNECT: Duration = Duration::from_secs(2);
const KEEP_ALIVE: Duration = Duration::from_secs(5);

fn endpoint(address: &Address) -> Result<Endpoint, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    Ok(endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true))
}

/// Connects now; the error is for people.
pub async fn connect(address: &Address) -> Result<Channel, String> {
    endpoint(address)?.connect().await.map_err(|error| innermost(&error))
}

/// A connection that is made, and made again, when it is needed.
pub fn connect_lazily(address: &Address) -> Result<Channel, String> {
    Ok(endpoint(address)?.connect_lazy())
}

/// tonic wraps the cause in "transport error"; people want the cause.
pub(super) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// What a call failed of, for people: its cause where the connection broke, else the other side's code and message.
pub(super) fn words(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(cause) => innermost(cause),
        None => format!("{}: {}", status.code(), status.message()),
    }
}

/// Asks who answers at an address. The caller sets the deadline.
pub async fn identify(address: Address) -> Result<Identity, String> {
    identify_by(connect(&address).await?).await
}

/// Asks who answers on a connection. The caller sets the deadline.
pub(super) async fn identify_by(channel: Channel) -> Result<Identity, String> {
    let mut client = pb::query_client::QueryClient::new(channel);
    let answer = client.identify(pb::IdentifyRequest {}).await;
    let answer = answer.map_err(|status| words(&status))?.into_inner();
    let node = (!answer.node.is_empty()).then(|| NodeId::new(&answer.node)).transpose();
    Ok(Identity {
        member: MemberId::new(&answer.member).map_err(|error| error.to_string())?,
        gen_: Gen(answer.r#gen),
        node: node.map_err(|error| error.to_string())?,
        ring_id: RingId(answer.ring_id),
        replicas: answer.replicas,
        hash_version: answer.hash_version,
        roles: answer.roles,
        standing: Standing {
            state: MemberState::named(&answer.state),
            tasks: answer.tasks,
            emitted: answer.emitted_tasks,
            rows: answer.rows,
            elsewhere: answer.shippers_elsewhere,
            samples: answer.samples,
            recent: (answer.recent_samples, answer.recent_ms),
            uptime: answer.uptime_ms,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_member_that_is_not_there_is_said_to_refuse_the_connection() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let channel = connect_lazily(&Address { host: "127.0.0.1".into(), port }).unwrap();
        let answer = pb::query_client::QueryClient::new(channel).identify(pb::IdentifyRequest {}).await;
        assert_eq!(words(&answer.unwrap_err()), "Connection refused (os error 111)");
    }
}
