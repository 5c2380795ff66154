//! `robinhood explain`, `pause` and `resume`: why limits moved, and whether they may, of a RobinHood that runs.
//!
//! Place in the flow: the decision records of the controller, read from the page's API.

use std::net::SocketAddr;

use clap::Args;
use robinhood_dashboard::{DEFAULT_PORT, Decision, Stack};
use robinhood_stats::Bytes;
use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::page_client::PageClient;
use crate::table::Table;

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  robinhood explain                        the newest decision of the RobinHood on this machine
  robinhood explain --last 12 ratings      what became of one backend in the last minute";

const PAUSE_EXAMPLES: &str = "\
Examples:
  robinhood pause --reason \"deployment\"   all limits stay, the reason is in every decision
  robinhood resume                         goes on from what the caches hold";

/// Where to ask.
#[derive(Debug, Args)]
struct Target {
    /// Where the page is served
    #[arg(long, default_value_t = SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)), value_name = "ADDRESS")]
    target: SocketAddr,
    /// One of several stacks, as in a demo [default: all with a controller]
    #[arg(long, value_name = "NAME")]
    stack: Option<String>,
}

/// Flags of `robinhood explain`.
#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct ExplainArgs {
    #[command(flatten)]
    target: Target,
    /// Decisions, the newest last; a running RobinHood keeps 64
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    last: u32,
    /// Only what is about this backend
    #[arg(value_name = "BACKEND")]
    backend: Option<String>,
}

/// Flags of `robinhood pause`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    target: Target,
    /// Why, for whoever reads the decisions later: at most 200 bytes
    #[arg(long, default_value = "paused by hand", value_name = "TEXT")]
    reason: String,
}

/// Flags of `robinhood resume`.
#[derive(Debug, Args)]
#[command(after_help = PAUSE_EXAMPLES)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    target: Target,
}

/// Runs `explain`.
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let state = PageClient::new(args.target.target)?.state().map_err(Failure::failed)?;
    let wanted = args.target.stack.as_deref();
    let mut told = false;
    for stack in &state.stacks {
        if stack.control.is_none() || wanted.is_some_and(|wanted| wanted != stack.name) {
            continue;
        }
        if let Some(backend) = &args.backend
            && !stack.backends.iter().any(|known| known.name == *backend)
        {
            let known: Vec<&str> = stack.backends.iter().map(|known| known.name.as_str()).collect();
            return Err(Failure::usage(format!(
                "`{}` has no backend `{backend}`: it has {}",
                stack.name,
                known.join(", ")
            )));
        }
        output::say(&of_stack(stack, args));
        told = true;
    }
    match (told, wanted) {
        (true, _) => Ok(()),
        (false, Some(name)) => {
            Err(Failure::usage(format!("no stack `{name}` with a controller runs there")))
        }
        (false, None) => Err(Failure::failed("nothing that runs there has a controller")),
    }
}

fn of_stack(stack: &Stack, args: &ExplainArgs) -> String {
    let mut text = String::new();
    if let Some(control) = &stack.control
        && let Some(reason) = &control.paused
    {
        text += &format!("{} is paused: {reason}\n", stack.name);
    }
    let first = stack.decisions.len().saturating_sub(args.last as usize);
    for decision in &stack.decisions[first..] {
        text += &of_decision(decision, args.backend.as_deref());
    }
    if stack.decisions.is_empty() {
        text += &format!("{} has not decided anything yet\n", stack.name);
    }
    text
}

fn of_decision(decision: &Decision, backend: Option<&str>) -> String {
    let mut text = format!("{}\n", decision.summary);
    let mut table =
        Table::new(["backend", "blocks", "limit", "becomes", "holds", "why"].map(str::to_owned));
    let mut rows = 0;
    for change in &decision.changes {
        if backend.is_some_and(|backend| backend != change.backend) {
            continue;
        }
        rows += 1;
        table.row([
            change.backend.clone(),
            format!("{:.0} %", 100.0 * change.rbc_share),
            Bytes(change.from_bytes).to_string(),
            Bytes(change.to_bytes).to_string(),
            Bytes(change.used_bytes).to_string(),
            change.reason.clone(),
        ]);
    }
    if rows > 0 {
        text += &table.render();
    }
    if backend.is_none() && decision.more_changes > 0 {
        text += &format!("and {} smaller changes\n", decision.more_changes);
    }
    text
}

/// Runs `pause`.
pub(crate) fn pause(args: &PauseArgs) -> Result<(), Failure> {
    let body = json!({ "stack": args.target.stack, "reason": args.reason });
    order(&args.target, "/v1/pause", &body)?;
    output::say("paused: limits stay until `robinhood resume`\n");
    Ok(())
}

/// Runs `resume`.
pub(crate) fn resume(args: &ResumeArgs) -> Result<(), Failure> {
    order(&args.target, "/v1/resume", &json!({ "stack": args.target.stack }))?;
    output::say("limits move again\n");
    Ok(())
}

fn order(target: &Target, path: &str, body: &serde_json::Value) -> Result<(), Failure> {
    let page = PageClient::new(target.target)?;
    page.command(path, body.to_string()).map_err(Failure::failed)
}
