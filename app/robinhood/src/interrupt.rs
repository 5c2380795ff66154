//! Ctrl-C, or the signal with which services are stopped: the first ends the work, keeps what is done and sets back what was changed elsewhere;
//! the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

static STOP: AtomicBool = AtomicBool::new(false);
static RELOAD: AtomicBool = AtomicBool::new(false);

/// The flag that each hangup signal sets: who reads its configuration again takes it down. From now on the process no longer dies of it.
pub(crate) fn reload_flag() -> Result<&'static AtomicBool, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(cannot)?;
    let mut hangups = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).map_err(cannot)?
    };
    std::thread::Builder::new()
        .name("hangup".into())
        .spawn(move || {
            runtime.block_on(async {
                while hangups.recv().await.is_some() {
                    RELOAD.store(true, Ordering::Relaxed);
                }
            });
        })
        .map_err(cannot)?;
    Ok(&RELOAD)
}

/// The flag that the first Ctrl-C or termination sets. From now on the process no longer dies of it.
pub(crate) fn stop_flag() -> Result<&'static AtomicBool, Failure> {
    stop_flag_and(|| {
        eprintln!("\nending; the summary covers what is done (Ctrl-C again to leave at once)");
    })
}

/// The same, with what is said then.
pub(crate) fn stop_flag_and(
    say: impl Fn() + Send + 'static,
) -> Result<&'static AtomicBool, Failure> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(cannot)?;
    // Registered here and not on the thread, which may take its time to start on a busy machine.
    let (mut interrupts, mut terminations) = {
        let _inside = runtime.enter();
        let listen = |kind| signal(kind).map_err(cannot);
        (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?)
    };
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            runtime.block_on(async {
                loop {
                    let received = tokio::select! {
                        received = interrupts.recv() => received,
                        received = terminations.recv() => received,
                    };
                    if received.is_none() {
                        return;
                    }
                    if STOP.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                    say();
                }
            });
        })
        .map_err(cannot)?;
    Ok(&STOP)
}

#[expect(clippy::needless_pass_by_value, reason = "what `map_err` hands over")]
fn cannot(error: std::io::Error) -> Failure {
    Failure::failed(format!("cannot listen for signals: {error}"))
}
