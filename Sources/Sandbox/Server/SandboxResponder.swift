import HTTPTypes
import Hummingbird
import NIOCore

/// Handles every request: finds its provider, records it, applies faults, and calls the provider.
struct SandboxResponder: HTTPResponder {
    let state: SandboxState
    var playground: Playground?
    var asksForCertificates = false

    func respond(to request: Request, context: SandboxContext) async throws -> Response {
        let target = request.head.path ?? "/"
        let halves = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = halves.first.map(String.init) ?? "/"
        let query = halves.count > 1 ? String(halves[1]) : ""
        if path == "/_sandbox" || path.hasPrefix("/_sandbox/") {
            do throws(PlaygroundGuard.Refusal) {
                try PlaygroundGuard.checkPlace(caller(of: request), own: ownHost)
            } catch {
                return .json(["error": .string(error.rawValue)], status: error.status)
            }
            let body = Array(try await request.body.collect(upTo: 8 << 20).readableBytesView)
            return await ControlAPI(state: state).handle(
                method: request.method.rawValue, path: path, query: Pairs(parsing: query), body: body)
        }
        if let playground, PlaygroundAPI.owns(path) {
            let body = Array(try await request.body.collect(upTo: 64 << 10).readableBytesView)
            return await PlaygroundAPI(playground: playground, state: state).handle(
                method: request.method.rawValue, path: path, caller: caller(of: request), body: body)
        }
        guard let provider = Catalogue.provider(path: path) else {
            return path == "/" ? Index.page(baseURL: state.baseURL) : .text("no such path\n", status: 404)
        }
        var endpoint = provider.endpoint(method: request.method.rawValue, path: path) ?? "unknown"
        let streams = provider.streams(endpoint: endpoint)
        let body = streams ? [] : Array(try await request.body.collect(upTo: 8 << 20).readableBytesView)
        if endpoint == "token" {
            let text = String(decoding: body, as: UTF8.self)
            if text.contains("grant_type=refresh_token") { endpoint = "refresh" }
            if Pairs(parsing: text)["grant_type"] == TokenEndpoint.exchangeGrant { endpoint = "exchange" }
        }
        let certificate = asksForCertificates ? await ShownCertificate(of: context.channel) : nil
        let ticket = record(
            request, certificate: certificate, provider: provider.name, endpoint: endpoint, path: path, query: query,
            body: body)
        let faults = state.takeFaults(provider: provider.name, endpoint: endpoint) {
            target + "\n" + String(decoding: body, as: UTF8.self)
        }
        let call = Call(
            state: state, provider: provider, endpoint: endpoint, method: request.method, path: path, query: query,
            headers: request.headers, body: body, faults: faults, settings: state.settings(of: provider),
            channel: context.channel, request: request, certificate: certificate)
        let recorder = playground?.recorder.request(call) == true ? playground?.recorder : nil
        var response: Response
        do {
            response = try await answer(call)
        } catch {
            recorder?.dropped(call)
            throw error
        }
        if let recorder { response = try await recorder.answer(response, to: call) }
        state.recordStatus(Int(response.status.code), of: ticket)
        // Close the connection after a request that offers another protocol (Java's client does this in its first request),
        // because the decoder stops after such a request.
        if request.headers[.upgrade] != nil { response.headers[.connection] = "close" }
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func answer(_ call: Call) async throws -> Response {
        let transport = TransportFaults(call: call)
        if let instead = try await transport.before() { return instead }
        let response =
            call.endpoint == "unknown" ? .text("no such path\n", status: 404) : try await call.provider.handle(call)
        return try await transport.after(response)
    }

    /// The host of the base URL, which may be another than a loopback name.
    private var ownHost: String { String(state.baseURL.split(separator: "/").dropFirst().first ?? "") }

    private func caller(of request: Request) -> PlaygroundGuard.Caller {
        PlaygroundGuard.Caller(
            host: request.head.authority, origin: request.headers[.origin], contentType: request.headers[.contentType],
            token: HTTPField.Name("Playground-Token").flatMap { request.headers[$0] })
    }

    private func record(
        _ request: Request, certificate: ShownCertificate?, provider: String, endpoint: String, path: String,
        query: String, body: [UInt8]
    ) -> Int? {
        guard state.recording else {
            return state.record(.placeholder(provider: provider, endpoint: endpoint))
        }
        let host = request.head.authority ?? ""
        return state.record(
            RecordedRequest(
                provider: provider, endpoint: endpoint, method: request.method.rawValue, host: host, path: path,
                query: query,
                headers: [("Host", host)] + request.headers.map { ($0.name.rawName, $0.value) },
                body: Array(body.prefix(64 << 10)), bodyLength: body.count, at: state.now, status: 0,
                certificate: certificate?.thumbprint))
    }
}

extension RecordedRequest {
    /// Returns an empty record, for requests that are only counted because recording is off.
    static func placeholder(provider: String, endpoint: String) -> RecordedRequest {
        RecordedRequest(
            provider: provider, endpoint: endpoint, method: "", host: "", path: "", query: "", headers: [], body: [],
            bodyLength: 0, at: 0, status: 0)
    }
}
