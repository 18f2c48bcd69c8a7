import BrokerHTTP
import BrokerWire
import HTTPTypes

/// Serves a listener's requests with the configuration that is current at their beginning.
struct CurrentService: WireService {
    let running: ConfigurationOwner
    let responder: @Sendable (RunningConfiguration) -> BrokerResponder

    /// The service that answers the listener's requests with 503 while the process ends (`BrokerResponder.refusing`).
    var refusing: CurrentService {
        CurrentService(running: running) { [responder] in responder($0).refusing }
    }

    func respond(to request: HTTPRequest, body: RequestBody, of connection: ClientConnection) async -> Answer {
        await responder(running.current).respond(
            to: request, body: body, on: connection.eventLoop, of: connection)
    }

    func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        responder(running.current).refuse(refusal, on: connection)
    }

    func answersWithoutHost(_ target: String) -> Bool { responder(running.current).answersWithoutHost(target) }
}
