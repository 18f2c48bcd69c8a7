package import Broker
import BrokerWire
import HTTPTypes
import NIOCore
import NIOHTTP1

/// The relay to upstreams (`ANY /v1/relay/{upstream}/{path…}`), which is the only way to call an upstream.
///
/// A route calls the relay like this:
///
///     guard let target = RelayTarget(head.path) else { … 404 … }
///     let answer = try await relay.call(
///         RelayRequest(method:, target: target, headers: head.headerFields, body: …, requestID: …),
///         session: session,            // LiveSession
///         token: { session, target, force in … })  // AccessToken; force: the upstream refused the one given before
///
/// Then the route writes `answer.status`, `answer.headers`, `answer.contentLength` and `answer.body`.
///
/// `token` is called after the request has passed all checks. `token` is called again if the call needs another token
/// (SEC-60). The closure receives the session in the state in which its sign-in was judged, which may be newer than the state
/// given to `call`.
///
/// If a body's announced length is at most 64 KiB, the relay reads the whole body into memory. It can then send the body
/// again. Pass every body as `.stream` with its length.
///
/// If the app sends too slowly, reading the body throws a `BrokerProblem`, which `call` rethrows. Cancelling the calling task
/// closes the upstream connection (SEC-81), during `call` or while the answer's body is read.
package struct Relay: Sendable {
    /// The largest body, in bytes, that is kept in memory.
    ///
    /// A request's body is kept so that it can be sent again. An answer's body is kept so that it is written at once.
    package static let heldBody = 65_536

    private let upstreams: [String: Upstream]
    private let maximumBody: Int
    private let own: Set<OwnName>
    private let observe: Observer?
    private let proofs: RelayProofs?
    private let certificates: ClientCertificates?

    /// Called after each call to a configured upstream, with the time until the answer's header, and the answer's status.
    ///
    /// The status is nil if there was no answer.
    package typealias Observer = @Sendable (_ upstream: UpstreamName, _ duration: Duration, _ status: Int?) -> Void

    /// Returns the judged presence proof that the request shows for a session.
    ///
    /// The relay calls this closure only if the relayed call needs presence. The proof is used up just before the relayed call
    /// is sent.
    package typealias PresenceJudging = (_ session: LiveSession) async throws(BrokerProblem) -> JudgedPresence

    /// Returns an access token of a session, for a target or, if the target is nil, for the session's own API.
    ///
    /// With `force`, the token is newer than the token that was returned before.
    package typealias TokenGiving = (
        _ session: LiveSession, _ target: TokenTarget?, _ force: Bool
    ) async throws(BrokerProblem) -> AccessToken

    /// Creates a relay; end it with `shutdown()`.
    /// - `maximumBody` limits request bodies, in bytes.
    /// - `ownNames` are the public URL and the broker's other names. Redirects of upstreams must not lead to them.
    /// - An upstream with the same base URL, address policy and trust roots as in the relay `before` keeps its connections
    ///   if `keepsConnections` is true. Pass false if `outbound` differs. If the upstream's limit is the same, its calls in
    ///   progress still count.
    /// - Connections of other upstreams close after their last call.
    package init(
        upstreams: [UpstreamSettings], outbound: RelayOutbound = RelayOutbound(), maximumBody: Int = 1 << 30,
        ownNames: [String] = [], after before: Relay? = nil, keepsConnections: Bool = false,
        proofs: RelayProofs? = nil, certificates: ClientCertificates? = nil, observe: Observer? = nil
    ) {
        self.proofs = proofs
        self.certificates = certificates
        let tls = upstreams.contains { $0.base.isSecure } ? outbound.context() : nil
        self.upstreams = Dictionary(
            upstreams.map { settings in
                let old = before?.upstreams[settings.name.text]
                let upstream = Upstream(
                    settings, outbound: outbound, tls: tls, after: old, keepsConnections: keepsConnections)
                return (settings.name.text, upstream)
            }, uniquingKeysWith: { first, _ in first })
        self.maximumBody = maximumBody
        own = Set(ownNames.compactMap { OwnName($0) })
        self.observe = observe
    }

    /// Closes the upstream connections permanently.
    package func shutdown() async {
        for upstream in upstreams.values { await upstream.pools.shutDown() }
    }

    /// Returns the number of calls to an upstream that are in progress.
    package func underWay(_ name: UpstreamName) -> Int { upstreams[name.text]?.concurrency.count ?? 0 }

    /// Calls an upstream with a session's access token.
    ///
    /// Throws the following, and everything that `token`, `signIns`, `presence` or the request's body throw:
    /// - `upstream_not_found`, `upstream_not_allowed` and `method_not_allowed`
    /// - `invalid_request` for a path, query or upgrade that is refused
    /// - `too_large` and `rate_limited`
    /// - `upstream_busy`, `upstream_error`, `upstream_timeout` and `upstream_nonce`
    package func call(
        _ request: RelayRequest, session: LiveSession, signIns: any SignInJudging,
        presence: PresenceJudging = Relay.noPresence, token: TokenGiving
    ) async throws(BrokerProblem) -> RelayResponse {
        guard let upstream = upstreams[request.target.upstream] else { throw BrokerProblem(.upstreamNotFound) }
        let settings = upstream.settings
        let begin = ContinuousClock.now
        do throws(BrokerProblem) {
            let response = try await perform(
                request, at: upstream, session: session, signIns: signIns, presence: presence, token: token)
            observe?(settings.name, ContinuousClock.now - begin, response.status.code)
            if response.status.code >= 500 {
                RequestScope.failed(FailedCallee(upstream: settings.name, target: settings.token))
            }
            return response
        } catch {
            observe?(settings.name, ContinuousClock.now - begin, nil)
            RequestScope.failed(FailedCallee(upstream: settings.name, target: settings.token))
            throw error
        }
    }

    /// Refuses calls that need presence, for callers that cannot show it.
    package static func noPresence(_ session: LiveSession) async throws(BrokerProblem) -> JudgedPresence {
        throw BrokerProblem(.presenceRequired)
    }

    /// Checks a call, gets its token, and sends it.
    private func perform(
        _ request: RelayRequest, at upstream: Upstream, session given: LiveSession, signIns: any SignInJudging,
        presence: PresenceJudging, token: TokenGiving
    ) async throws(BrokerProblem) -> RelayResponse {
        let (path, demand) = try path(of: request, at: upstream, for: given)
        var session = given
        if let demand = demand?.ofSignIn { session = try await signIns.require(demand, of: given) }
        let shown = demand?.presence == true ? try await presence(session) : nil
        let body = try await body(of: request)
        var first = try await token(session, upstream.settings.token, false)
        // If the token is bound to another certificate than the one that the upstream is shown now, refresh the token. On
        // plain http, a refresh is useless, because no certificate is shown.
        if upstream.settings.base.isSecure, !upstream.carries(first, of: session, certificates) {
            do throws(BrokerProblem) { first = try await token(session, upstream.settings.token, true) } catch {
                // Go on with the first token if the session is not refreshable. The call then fails with the precise reason.
                guard error.code == .notRefreshable else { throw error }
            }
        }
        // Count the call towards the upstream's limit last, so that calls which wait for a slow app or a slow provider are left
        // out.
        var call = RelayedCall(
            request: request, upstream: upstream, path: path, body: body, own: own,
            place: try upstream.concurrency.take(for: session), session: session, proofs: proofs,
            certificates: certificates, token: first)
        do throws(RelayFailure) {
            let response = try await call.begin(showing: shown)
            guard response.status == .unauthorized else { return try await call.render(response) }
            do throws(RelayFailure) {
                return try await handleRefusal(response, of: session, to: &call, signIns, token)
            } catch {
                // If the upstream refused the call, and the call was sent only once, release the presence proof. The app may
                // then repeat the call with this proof.
                if error.isUnsent, !call.isRepeated { await shown?.giveBack() }
                throw error
            }
        } catch { throw error.problem }
    }

    /// Handles a 401 of an upstream: requests another sign-in from the app, repeats the call with a newer token, or returns the
    /// 401 to the app.
    ///
    /// A thrown failure is `unsent` if the upstream has seen only the call that it refused.
    private func handleRefusal(
        _ response: UpstreamResponse, of session: LiveSession, to call: inout RelayedCall,
        _ signIns: any SignInJudging, _ token: TokenGiving
    ) async throws(RelayFailure) -> RelayResponse {
        let upstream = call.upstream
        if upstream.settings.passesChallenges, let challenge = UpstreamChallenge.demand(in: response) {
            return try await handleChallenge(challenge, of: session, to: &call, signIns, token)
        }
        guard call.canBeRepeated(after: response) else { return try await call.render(response) }
        do throws(BrokerProblem) {
            call.token = try await token(session, upstream.settings.token, true)
        } catch {
            guard error.code == .notRefreshable else { throw .unsent(error) }
            return try await call.render(response)
        }
        let again = try await call.send()
        return try await call.render(again)
    }

    /// Handles an upstream's challenge for another sign-in.
    ///
    /// A forced refresh would not help, because it leaves the sign-in unchanged. If the session has got another token since
    /// this call's token was read, the call is repeated with that token.
    private func handleChallenge(
        _ challenge: StepUpDemand, of session: LiveSession, to call: inout RelayedCall, _ signIns: any SignInJudging,
        _ token: TokenGiving
    ) async throws(RelayFailure) -> RelayResponse {
        let target = call.upstream.settings.token
        var isLast = false
        if case .stream = call.body { isLast = true }
        let latest: LiveSession
        do throws(BrokerProblem) {
            latest = try await signIns.judge(challenge: challenge, of: session, target: target, isLast: isLast)
            let other = try await token(latest, target, false)
            // A step-up that keeps the session's refresh token leaves the version of the tokens unchanged, so compare the
            // tokens' bytes.
            if other.token.reveal().hasBytes(of: call.token.token.reveal()) {
                _ = try await signIns.judge(challenge: challenge, of: latest, target: target, isLast: true)
            }
            call.token = other
        } catch { throw .unsent(error) }
        let response = try await call.send()
        guard response.status == .unauthorized, let again = UpstreamChallenge.demand(in: response) else {
            return try await call.render(response)
        }
        do throws(BrokerProblem) {
            _ = try await signIns.judge(challenge: again, of: latest, target: target, isLast: true)
        } catch { throw RelayFailure(error) }
        return try await call.render(response)
    }

    /// Throws if a call is not allowed; otherwise returns the path to call, and the sign-in that the call needs.
    private func path(
        of request: RelayRequest, at upstream: Upstream, for session: LiveSession
    ) throws(BrokerProblem) -> (target: String, demand: StepUpDemand?) {
        let settings = upstream.settings
        let method = request.method.rawValue
        guard !AllowList.refusedMethods.contains(method) else { throw BrokerProblem(.methodNotAllowed) }
        guard upstream.accepts(session) else {
            throw BrokerProblem(
                .upstreamNotAllowed, detail: "This session's provider or client is not this upstream's.")
        }
        guard !RequestHeaderRules.asksForUpgrade(request.headers) else {
            throw BrokerProblem(
                .invalidRequest,
                detail: "The relay does not switch protocols; of Upgrade only `h2c` is ignored.",
                with: .fields([FieldFault("Upgrade", .notAllowed)]))
        }
        // If there were two values, the upstream could read one value, and a filter in front of the upstream the other
        // value.
        guard request.headers[values: .contentType].count <= 1 else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("Content-Type", .duplicate)]))
        }
        let path: CanonicalPath
        do throws(CanonicalPath.Fault) { path = try CanonicalPath(request.target.path) } catch {
            throw BrokerProblem(
                .invalidRequest, detail: "The path could be read in more than one way.", privateDetail: "\(error)",
                with: .fields([FieldFault("path", .malformed)]))
        }
        guard settings.allow.allows(method: method, path: path) else {
            throw BrokerProblem(
                .upstreamNotAllowed, detail: "This method and path are not among those the relay allows.")
        }
        guard !settings.hidesEmployees || !EmployeeRules.concerns(path: path, query: request.target.query) else {
            throw BrokerProblem(
                .upstreamNotAllowed,
                detail: "The answer would hold employees' PINs, which this upstream does not relay.")
        }
        let demand = settings.require.isEmpty ? nil : settings.require.demand(method: method, path: path)
        guard let raw = request.target.query else { return (settings.base.path + path.text, demand) }
        guard let query = CanonicalQuery(raw) else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("query", .malformed)]))
        }
        return (settings.base.path + path.text + "?" + query.text, demand)
    }

    /// Checks the body's size, and reads a small body into memory.
    private func body(of request: RelayRequest) async throws(BrokerProblem) -> UpstreamRequest.Body {
        switch request.body {
        case .none: return .none
        case .whole(let buffer):
            guard buffer.readableBytes <= maximumBody else { throw BrokerProblem(.tooLarge) }
            return buffer.readableBytes == 0 ? .none : request.body
        case .stream(let stream, let length):
            if let length, length > maximumBody { throw BrokerProblem(.tooLarge) }
            guard let length, length <= Self.heldBody else {
                return .stream(stream.limited(to: maximumBody), length: length)
            }
            let buffer = try await whole(stream, of: length)
            return buffer.readableBytes == 0 ? .none : .whole(buffer)
        }
    }

    /// Reads a small body into memory; throws if it is longer than its announced `length`.
    private func whole(_ stream: UpstreamRequest.Stream, of length: Int) async throws(BrokerProblem) -> ByteBuffer {
        let next = stream.read()
        var whole = ByteBuffer()
        do {
            while var chunk = try await next() {
                guard chunk.readableBytes <= length - whole.readableBytes else { throw BrokerProblem(.tooLarge) }
                whole.writeBuffer(&chunk)
            }
        } catch let problem as BrokerProblem {
            throw problem
        } catch {
            throw BrokerProblem(.invalidRequest, detail: "The request's body broke off.")
        }
        return whole
    }
}
