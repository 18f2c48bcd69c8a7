import Hummingbird
import NIOCore

/// The request context, which keeps the connection so that faults can close it.
struct SandboxContext: InitializableFromSource {
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        channel = source.channel
    }
}
