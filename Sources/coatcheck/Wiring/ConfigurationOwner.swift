import BrokerHTTP
import BrokerWire
import HTTPTypes
import Synchronization

/// The one place where the running configuration stands and is exchanged.
final class ConfigurationOwner: Sendable {
    private let state: Mutex<RunningConfiguration>

    init(_ first: RunningConfiguration) { state = Mutex(first) }

    /// The configuration that new work begins with.
    var current: RunningConfiguration { state.withLock { $0 } }

    /// Puts another in its place; returns the one before, so that it does not end under the lock.
    func exchange(for next: RunningConfiguration) -> RunningConfiguration {
        state.withLock { current in
            defer { current = next }
            return current
        }
    }
}

/// Serves a listener's requests by the configuration that runs when they begin.
struct CurrentService: WireService {
    let running: ConfigurationOwner
    let responder: @Sendable (RunningConfiguration) -> BrokerResponder

    /// The same listener while the process ends (`BrokerResponder.refusing`).
    var refusing: CurrentService {
        CurrentService(running: running) { [responder] in responder($0).refusing }
    }

    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer {
        await responder(running.current).respond(to: request, body: body, of: connection)
    }

    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        responder(running.current).refuse(refusal, on: connection)
    }
}
