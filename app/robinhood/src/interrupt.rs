//! Ctrl-C: the first ends the work and keeps what is done, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static STOP: AtomicBool = AtomicBool::new(false);

/// The flag that the first Ctrl-C sets. From now on the process no longer dies of it.
pub(crate) fn stop_flag() -> Result<&'static AtomicBool, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    std::thread::Builder::new()
        .name("interrupt".into())
        .spawn(move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if STOP.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                    eprintln!(
                        "\nending; the summary covers what is done (Ctrl-C again to leave at once)"
                    );
                }
            });
        })
        .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    Ok(&STOP)
}
