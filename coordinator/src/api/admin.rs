//! The service for operators.
//!
//! Any node answers. Reads of budgets are linearizable, because the node fences first. A write is
//! proposed through the leader as one entry. It carries the operator's request id, so that a retry is
//! not a second change.
//!
//! The cluster and its clients are shown as the answering node knows them, so that they can be queried
//! without a leader. Only the leader knows the demand and the rates of callers. Another node forwards
//! such a query to it, once.

mod budgets;
mod cluster;
mod service;
mod usage;

pub use service::AdminService;

use super::auth::Guard;
use super::backend::{NodeFacts, WriteError};
use crate::timer;
use aliquot_core::unit::NodeId;
use aliquot_wire::admin::{
    ApplyBudgets, ChangeCluster, ClusterChange, DeleteBudget, DiffBudgets, GetBudget, GetUsage,
    ListBudgets, ListClients, ListHolders, Role, TopKeys,
};
use aliquot_wire::limits::MESSAGE_BYTES_MAX;
use aliquot_wire::pb::admin_client::AdminClient;
use aliquot_wire::pb::admin_server::{Admin, AdminServer};
use aliquot_wire::{Wire, pb};
use service::not_written;
use std::time::Duration;
use tonic::metadata::MetadataValue;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

impl AdminService {
    /// Returns the gRPC service for peers, which forward requests.
    #[must_use]
    pub fn into_service(self) -> AdminServer<Self> {
        AdminServer::new(self).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Returns the gRPC service for callers that `guard` lets through.
    #[must_use]
    pub fn into_server(self, guard: Guard) -> InterceptedService<AdminServer<Self>, Guard> {
        InterceptedService::new(self.into_service(), guard)
    }

    /// Returns a client for the leader's service, if another node leads and `request` was not forwarded
    /// yet.
    fn elsewhere<T>(&self, request: &Request<T>) -> Option<AdminClient<Channel>> {
        let passed = request.metadata().contains_key(PASSED_ON);
        let leader = self.backend.leader().filter(|_| !passed)?;
        Some(AdminClient::new(leader).max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    /// Returns true if the change removes a node that has already been removed, so that an operator who
    /// lost the answer can repeat the request. The log distinguishes such a node from one that never
    /// existed.
    async fn has_left(&self, change: &ClusterChange) -> Result<bool, Status> {
        let ClusterChange::Remove(node) = *change else {
            return Ok(false);
        };
        self.query_fenced(move |view| {
            let is_member = |it: &NodeFacts| it.node == node && it.role != Role::Removed;
            view.state.was_removed(node) && !view.nodes.iter().any(is_member)
        })
        .await
    }
}

/// Header of a request that another node has forwarded.
const PASSED_ON: &str = "aliquot-passed-on";

/// Maximum time for the leader to answer a forwarded request.
const LEADER_WITHIN: Duration = Duration::from_secs(5);

/// Returns the request to forward to the leader. It identifies this node instead of the original
/// caller.
fn passed_on<T>(request: Request<T>) -> Request<T> {
    let mut passed = Request::new(request.into_inner());
    let metadata = passed.metadata_mut();
    metadata.insert(PASSED_ON, MetadataValue::from_static("1"));
    passed
}

async fn within<T>(
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, Status> {
    let late = |_| Status::unavailable("only the leader knows this, and it does not answer");
    timer::timeout(LEADER_WITHIN, answer).await.map_err(late)?
}

fn read<T: Wire>(request: Request<T::Message>) -> Result<T, Status> {
    T::from_message(request.into_inner())
        .map_err(|error| Status::invalid_argument(error.to_string()))
}

fn answer<T: Wire>(value: &T) -> Result<Response<T::Message>, Status> {
    Ok(Response::new(value.to_message()))
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn apply_budgets(
        &self,
        request: Request<pb::ApplyBudgetsRequest>,
    ) -> Result<Response<pb::BudgetsOutcome>, Status> {
        let apply: ApplyBudgets = read(request)?;
        answer(&self.apply(apply).await?)
    }

    async fn get_budget(
        &self,
        request: Request<pb::GetBudgetRequest>,
    ) -> Result<Response<pb::RuleView>, Status> {
        let GetBudget { key } = read(request)?;
        let pattern = key.clone();
        let found = self.query_fenced(move |view| budgets::get(view.state, &pattern));
        let no_such =
            || Status::not_found(format!("there is no budget with exactly the key {key}"));
        answer(&found.await?.ok_or_else(no_such)?)
    }

    async fn list_budgets(
        &self,
        request: Request<pb::ListBudgetsRequest>,
    ) -> Result<Response<pb::ListBudgetsResponse>, Status> {
        let list: ListBudgets = read(request)?;
        answer(
            &self
                .query_fenced(move |view| budgets::list(view.state, list))
                .await?,
        )
    }

    async fn delete_budget(
        &self,
        request: Request<pb::DeleteBudgetRequest>,
    ) -> Result<Response<pb::DeleteBudgetResponse>, Status> {
        let delete: DeleteBudget = read(request)?;
        answer(&self.delete(delete).await?)
    }

    async fn diff_budgets(
        &self,
        request: Request<pb::DiffBudgetsRequest>,
    ) -> Result<Response<pb::BudgetsOutcome>, Status> {
        let DiffBudgets { budgets } = read(request)?;
        answer(&self.plan(budgets).await?.outcome)
    }

    async fn get_usage(
        &self,
        request: Request<pb::GetUsageRequest>,
    ) -> Result<Response<pb::UsageView>, Status> {
        if let Some(mut leader) = self.elsewhere(&request) {
            return within(leader.get_usage(passed_on(request))).await;
        }
        let GetUsage { key } = read(request)?;
        let wanted = key.clone();
        let found = self
            .query_fenced(move |view| usage::of_key(view, &key))
            .await?;
        answer(&found.ok_or_else(|| usage::unmatched(&wanted))?)
    }

    async fn list_holders(
        &self,
        request: Request<pb::ListHoldersRequest>,
    ) -> Result<Response<pb::ListHoldersResponse>, Status> {
        let ListHolders { key } = read(request)?;
        let wanted = key.clone();
        let found = self
            .query_fenced(move |view| usage::holders(view.state, &key))
            .await?;
        answer(&found.ok_or_else(|| usage::unmatched(&wanted))?)
    }

    async fn top_keys(
        &self,
        request: Request<pb::TopKeysRequest>,
    ) -> Result<Response<pb::TopKeysResponse>, Status> {
        if let Some(mut leader) = self.elsewhere(&request) {
            return within(leader.top_keys(passed_on(request))).await;
        }
        let top: TopKeys = read(request)?;
        answer(&self.query(move |view| usage::top(view, top)).await?)
    }

    async fn get_cluster(
        &self,
        request: Request<pb::GetClusterRequest>,
    ) -> Result<Response<pb::ClusterView>, Status> {
        let caller = request.into_inner().caller.map(NodeId::new);
        let cluster = self.query(move |view| cluster::cluster(view, caller));
        answer(&cluster.await?)
    }

    async fn list_clients(
        &self,
        request: Request<pb::ListClientsRequest>,
    ) -> Result<Response<pb::ListClientsResponse>, Status> {
        let list: ListClients = read(request)?;
        answer(&self.query(move |view| cluster::clients(view, list)).await?)
    }

    async fn change_cluster(
        &self,
        request: Request<pb::ChangeClusterRequest>,
    ) -> Result<Response<pb::ChangeClusterResponse>, Status> {
        let ChangeCluster { request, change } = read(request)?;
        let changed = self.backend.change(request, change.clone()).await;
        match changed {
            Err(WriteError::Refused { .. }) if self.has_left(&change).await? => {}
            changed => changed.map_err(not_written)?,
        }
        Ok(Response::new(pb::ChangeClusterResponse {}))
    }
}
