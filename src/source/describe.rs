//! A container's labels and names into a task's texts.
//!
//! Swarm sets its labels last, so a user's cannot stand in for them; names come from labels alone, and a task's name is
//! never split at dots, for service names may have some. Pure; it deliberately knows nothing of engines.

use super::{Node, engine::api::Labels};
use crate::model::{
    Labels as Kept, MAX_LABEL_VALUE, MAX_LABELS, MAX_NAME, Millis, NameError, ServiceId, TaskId, TaskMeta,
};
use std::sync::Arc;

const TASK_ID: &str = "com.docker.swarm.task.id";
const TASK_NAME: &str = "com.docker.swarm.task.name";
const SERVICE_ID: &str = "com.docker.swarm.service.id";
const SERVICE_NAME: &str = "com.docker.swarm.service.name";
const STACK: &str = "com.docker.stack.namespace";
const COMPOSE_PROJECT: &str = "com.docker.compose.project";
const COMPOSE_SERVICE: &str = "com.docker.compose.service";

/// Which containers are taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Include {
    /// Swarm's tasks.
    #[default]
    Swarm,
    /// Plain and Compose containers as well.
    All,
}

impl Include {
    /// Whether a container with these labels is taken.
    pub fn takes(self, labels: &Labels) -> bool {
        self == Include::All || labels.contains_key(TASK_ID)
    }
}

/// What an engine says of a container that ends up in a task's texts.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name, with or without the engine's leading `/`.
    pub name: &'a str,
    /// The image as it was asked for.
    pub image: &'a str,
    /// All its labels.
    pub labels: &'a Labels,
    /// When it was started, wall clock.
    pub started_at: Millis,
    /// Its network namespace is another container's.
    pub shares_netns: bool,
}

impl Container<'_> {
    /// The task's texts on a node, with the labels that `keep` names, as far as there is room.
    ///
    /// # Errors
    /// If an id is one that no engine makes.
    pub fn task(&self, node: &Node, keep: &[String]) -> Result<TaskMeta, NameError> {
        let label = |name: &str| self.labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let name = clean(self.name.trim_start_matches('/'), MAX_NAME);
        let task_id = TaskId::new(label(TASK_ID).unwrap_or(self.id))?;
        let task_name = clean(label(TASK_NAME).unwrap_or(&name), MAX_NAME);
        let (service_id, service_name) = match (label(SERVICE_ID), label(COMPOSE_PROJECT), label(COMPOSE_SERVICE)) {
            (Some(id), ..) => (ServiceId::new(id)?, label(SERVICE_NAME).unwrap_or(id).to_owned()),
            (None, Some(project), Some(service)) => {
                (ServiceId::new(format!("compose/{project}/{service}"))?, format!("{project}-{service}"))
            }
            // A container that was just created for a one-off command has a name as well; the id stands in for none.
            _ => (ServiceId::new(if name.is_empty() { self.id } else { &name })?, name.clone()),
        };
        let service_name = clean(&service_name, MAX_NAME);
        let slot = task_name
            .strip_prefix(&*service_name)
            .and_then(|rest| rest.strip_prefix('.')?.strip_suffix(task_id.as_str())?.strip_suffix('.'));
        let labels: Kept = keep
            .iter()
            .filter_map(|name| Some((name.as_str(), self.labels.get(name)?)))
            .take(MAX_LABELS)
            .map(|(name, value)| (Arc::from(name), Arc::from(clean(value, MAX_LABEL_VALUE))))
            .collect();
        Ok(TaskMeta {
            slot: slot.unwrap_or_default().into(),
            task_name: task_name.into(),
            task_id,
            service_id,
            service_name: service_name.into(),
            stack: clean(label(STACK).unwrap_or_default(), MAX_NAME).into(),
            node_id: node.node_id.clone(),
            node_name: node.node_name.clone(),
            container_id: self.id.into(),
            image: clean(self.image, MAX_NAME).into(),
            started_at: self.started_at,
            labels,
            shares_netns: self.shares_netns,
        })
    }
}

/// A text as it may be shown and sent: of at most so many bytes, with no broken character, control characters replaced.
fn clean(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeId;

    fn node() -> Node {
        Node { node_id: NodeId::new("uptimqtenixg79kuf8h9rctqy").unwrap(), node_name: "worker-1".into() }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    fn task(name: &str, labels: &Labels, keep: &[String]) -> TaskMeta {
        let id = "ae6b489de1b725e95324791624368d97875b0835a637d6d28c6818dafcdf7813";
        let container = Container { id, name, image: "nginx:1", labels, started_at: 5, shares_netns: false };
        container.task(&node(), keep).unwrap()
    }

    fn swarm(service: &str, task_name: &str) -> Labels {
        labels(&[
            ("com.docker.swarm.task", ""),
            (TASK_ID, "d3n504b9ipdp5md70dj5iidep"),
            (TASK_NAME, task_name),
            (SERVICE_ID, "9mnpnzenvg8p8tdbtq4wvbkcz"),
            (SERVICE_NAME, service),
            ("com.docker.swarm.node.id", "uptimqtenixg79kuf8h9rctqy"),
            (STACK, "shop"),
        ])
    }

    #[test]
    fn b113_a_swarm_task_is_named_by_its_labels() {
        let labels = swarm("shop_web", "shop_web.1.d3n504b9ipdp5md70dj5iidep");
        let task = task("/shop_web.1.d3n504b9ipdp5md70dj5iidep", &labels, &[]);
        assert_eq!(task.task_id.as_str(), "d3n504b9ipdp5md70dj5iidep");
        assert_eq!(task.service_id.as_str(), "9mnpnzenvg8p8tdbtq4wvbkcz");
        assert_eq!((&*task.service_name, &*task.slot, &*task.stack), ("shop_web", "1", "shop"));
        assert_eq!((task.node_id.as_str(), &*task.node_name), ("uptimqtenixg79kuf8h9rctqy", "worker-1"));
    }

    #[test]
    fn p20_a_service_name_with_dots_does_not_move_the_slot_nor_lose_a_part() {
        let labels = swarm("web.v1.2", "web.v1.2.7.d3n504b9ipdp5md70dj5iidep");
        let task = task("/x", &labels, &[]);
        assert_eq!((&*task.slot, &*task.service_name), ("7", "web.v1.2"));
    }

    #[test]
    fn the_slot_of_a_global_service_or_job_is_the_node_and_of_a_replicated_job_its_number() {
        let labels = swarm("agent", "agent.uptimqtenixg79kuf8h9rctqy.d3n504b9ipdp5md70dj5iidep");
        assert_eq!(&*task("/x", &labels, &[]).slot, "uptimqtenixg79kuf8h9rctqy");
        let labels = swarm("job", "job.42.d3n504b9ipdp5md70dj5iidep");
        assert_eq!(&*task("/x", &labels, &[]).slot, "42");
    }

    #[test]
    fn a_name_that_does_not_fit_its_labels_has_no_slot() {
        for name in ["agent", "agent.", "agent.d3n504b9ipdp5md70dj5iidep", "other.1.d3n504b9ipdp5md70dj5iidep", ""] {
            assert_eq!(&*task("/x", &swarm("agent", name), &[]).slot, "", "{name:?}");
        }
    }

    #[test]
    fn plain_and_compose_containers_are_services_of_their_own() {
        let plain = task("/db", &Labels::new(), &[]);
        assert_eq!((plain.task_id.as_str(), plain.service_id.as_str()), (&*plain.container_id, "db"));
        assert_eq!((&*plain.task_name, &*plain.service_name, &*plain.slot, &*plain.stack), ("db", "db", "", ""));
        let compose = labels(&[(COMPOSE_PROJECT, "shop"), (COMPOSE_SERVICE, "web")]);
        let compose = task("/shop-web-1", &compose, &[]);
        assert_eq!((compose.service_id.as_str(), &*compose.service_name), ("compose/shop/web", "shop-web"));
        assert_eq!(&*compose.task_name, "shop-web-1");
    }

    #[test]
    fn only_labels_that_were_asked_for_are_kept_within_bounds() {
        let long = "é".repeat(MAX_LABEL_VALUE);
        let all = labels(&[("team", "a"), ("secret", "b"), ("long", &long)]);
        let kept = task("/x", &all, &["team".into(), "long".into(), "missing".into()]).labels;
        assert_eq!(kept.keys().map(|name| &**name).collect::<Vec<_>>(), ["long", "team"]);
        assert_eq!(kept["long"].len(), MAX_LABEL_VALUE);

        let many: Vec<String> = (0..MAX_LABELS + 5).map(|n| format!("l{n}")).collect();
        let all = many.iter().map(|name| (name.clone(), "x".to_owned())).collect();
        assert_eq!(task("/x", &all, &many).labels.len(), MAX_LABELS);
    }

    #[test]
    fn ids_that_no_engine_makes_are_refused() {
        let mut labels = swarm("web", "web.1.x");
        labels.insert(SERVICE_ID.into(), "has space".into());
        let container =
            Container { id: "c", name: "/n", image: "", labels: &labels, started_at: 0, shares_netns: false };
        assert!(container.task(&node(), &[]).is_err());
    }

    #[test]
    fn swarm_alone_is_taken_unless_told() {
        assert!(Include::Swarm.takes(&swarm("web", "web.1.x")));
        assert!(!Include::Swarm.takes(&Labels::new()));
        assert!(Include::All.takes(&Labels::new()));
    }

    #[test]
    fn control_characters_of_labels_and_names_go_no_further() {
        let mut of_stack = swarm("web", "web.1.d3n504b9ipdp5md70dj5iidep");
        of_stack.insert(STACK.into(), "a\nb\u{1b}[2J".into());
        assert_eq!(&*task("x", &of_stack, &[]).stack, "a?b?[2J");
    }
}
