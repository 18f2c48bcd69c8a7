import Broker
import BrokerRelay
package import BrokerWire
package import HTTPTypes
package import NIOCore

/// Serves one listener: finds the route, applies the rules that all routes share, and completes every answer.
///
/// The function `serve` replaces a stack of middlewares. It shows all rules in their order, and calling the rules costs no
/// allocation.
///
/// The responder is a class, because each request fetches it from the running configuration. Copying a struct would retain
/// and release some twenty references.
package final class BrokerResponder: Sendable {
    /// All routes, for the test that compares them with openapi.yaml.
    package let routes: [Route]
    private let table: RouteTable
    let rules: ListenerRules
    private let errors: ProblemResponder
    private let limits: HTTPLimits
    private let clock: BrokerClock
    private let load: ServerLoad
    private let log: RequestLog
    /// The closure that starts traces; nil if tracing is off.
    private let traces: TraceStarter?
    private let framing: FramingProblems
    private let date = FormattedTimeCache(\.httpDate)
    private let isRefusing: Bool

    init(
        routes: [Route], rules: ListenerRules, errors: ProblemResponder, limits: HTTPLimits, clock: BrokerClock,
        load: ServerLoad, log: RequestLog, traces: TraceStarter? = nil, appLinkPaths: [String] = []
    ) {
        self.traces = traces
        self.routes = routes
        table = RouteTable(routes, appLinkPaths: appLinkPaths)
        self.rules = rules
        self.errors = errors
        self.limits = limits
        self.clock = clock
        self.load = load
        self.log = log
        framing = FramingProblems(log: log, hasStrictTransport: rules.hasStrictTransport)
        isRefusing = false
    }

    private init(refusing responder: BrokerResponder) {
        routes = responder.routes
        table = responder.table
        rules = responder.rules
        errors = responder.errors
        limits = responder.limits
        clock = responder.clock
        load = responder.load
        log = responder.log
        traces = responder.traces
        framing = responder.framing
        isRefusing = true
    }

    /// A responder for this listener that refuses every request with 503 `shutting_down`, while the process ends.
    ///
    /// This responder uses none of the resources that the process closes before its end.
    package var refusing: BrokerResponder { BrokerResponder(refusing: self) }

    /// The status that nginx and others log if the client hung up before the answer; it is never sent.
    private static let clientClosedRequest = 499

    package func refuse(_ refusal: FramingRefusal, on connection: ClientConnection) -> Answer {
        framing.answer(refusal, connection)
    }

    package func answersWithoutHost(_ target: String) -> Bool { rules.answersWithoutHost(target) }

    /// Serves a request and always returns an answer; an in-process request has no connection.
    package func respond(
        to request: HTTPRequest, body: RequestBody, on eventLoop: any EventLoop, of connection: ClientConnection? = nil
    ) async -> Answer {
        load.requestBegan()
        defer { load.requestEnded() }
        let start = clock.monotonic()
        let call = Call(
            request: request, stream: body, requestID: RequestID.fresh(), connection: connection,
            eventLoop: eventLoop)
        var circumstances = ProblemResponder.Circumstances()
        var template = "-"
        let scope = RequestScope(
            requestID: call.requestID,
            span: traces.map { $0.begin("request", .server, rules.traceOrigin(of: call)) })
        let outcome = await RequestScope.$current.withValue(scope) { () async -> Result<Answer, BrokerProblem> in
            do throws(BrokerProblem) {
                return .success(try await serve(call, &circumstances, &template))
            } catch {
                return .failure(error)
            }
        }
        var answer: Answer
        var problem: BrokerProblem?
        // Consume the outcome. If a copy of the answer remained, appending a field would copy all fields.
        switch consume outcome {
        case .success(let made): answer = made
        case .failure(let error):
            problem = error
            circumstances.usedBasic = call.fields.authorization.contains { $0.prefix(6).isASCIIEqual(to: "basic ") }
            circumstances.hasSessionCookie = rules.hasSessionCookie(call.fields)
            circumstances.hasPass = rules.hasPassCookie(call.fields)
            circumstances.hasWebCookie =
                !circumstances.hasSessionCookie && call.fields.authorization.isEmpty
                && rules.hasWebCookie(call.fields)
            answer = errors.answer(error, requestID: call.requestID, circumstances)
        }
        if scope.wantsNonce, problem?.proof == nil { errors.addNonce(to: &answer.fields) }
        rules.addOriginFields(to: &answer.fields, call)
        if rules.hasStrictTransport { answer.fields.append(SecurityFields.strictTransport) }
        answer.fields.append(HTTPField(name: .date, value: date.text(at: clock.now())))
        if call.isHead, !circumstances.isRelay || problem != nil { answer.leaveBodyOut() }
        if isRefusing || load.isDraining { answer.closes = true }
        answer.countWriting(in: load, asRequest: circumstances.isRelay)
        // If the client hung up before the refusal, log 499 instead of the refusal's status, which could look like an outage.
        let isUnheard = problem != nil && call.connection?.isGone == true
        let status = isUnheard ? Self.clientClosedRequest : answer.status.code
        scope.span?.endRequest(request.method, template, status, problem, scope)
        log.record(
            RequestRecord(
                method: request.method.rawValue, route: template, status: status,
                duration: clock.monotonic() - start, requestID: call.requestID, client: rules.client(of: call).text,
                session: scope.session,
                failed: circumstances.isRelay && (problem != nil || status >= 500) ? scope.failedCallee : nil,
                traceID: scope.span?.traceID, untrustedProxy: rules.untrustedProxy(of: call),
                userAgent: call.fields.userAgent, code: problem?.code, privateDetail: problem?.privateDetail))
        return answer
    }

    private func serve(
        _ call: Call, _ circumstances: inout ProblemResponder.Circumstances, _ template: inout String
    ) async throws(BrokerProblem) -> Answer {
        circumstances.isRelay = call.path.utf8.starts(with: RelayTarget.prefix.utf8)
        try rules.checkName(call)
        guard let found = table.find(call.path) else { throw BrokerProblem(.notFound) }
        template = found.entry.template
        circumstances.allow = found.entry.methods
        if let preflight = rules.preflight(call, methods: found.entry.methods) { return preflight }
        guard let route = found.entry.route(call.request.method) else {
            throw BrokerProblem(.methodNotAllowed)
        }
        circumstances.isOAuth = route.traits.contains(.oauthErrors)
        circumstances.isPage =
            route.traits.contains(.page)
            && call.request.headerFields[.accept]?.contains("application/problem+json") != true
        // Let the client retry at once, because the next process or another replica is probably ready.
        if isRefusing { throw BrokerProblem(.shuttingDown, retryAfter: .zero) }
        try rules.checkOrigin(call, route)
        let call = call.with(parameters: found.parameters)
        guard !route.traits.contains(.relay), call.fields.hasBody || MediaType(route.traits) != nil else {
            return try await route.handler(call)
        }
        // The proxies of forward-auth (nginx and others) announce the body of the user's request but do not send it, so it must
        // not be awaited.
        guard !route.readsNoBody else {
            do throws(BodyFault) { try await call.stream.leaveUnread() } catch { throw BodyReader.problem(error) }
            return try await route.handler(call)
        }
        return try await serveWithBody(call, route)
    }

    /// Serves a request with a body, unless its head is enough to refuse it.
    ///
    /// If the route's check (`proof`) fails or the media type is wrong, the broker refuses the request before it sends `100
    /// Continue` and stores the body (RFC 9110 section 10.1.1).
    private func serveWithBody(_ call: Call, _ route: Route) async throws(BrokerProblem) -> Answer {
        // Check the permission first, so that a caller who lacks it learns only about the missing permission.
        let owner = try await route.proof?(call)
        try MediaType(route.traits)?.check(call.fields)
        guard call.fields.hasBody else { return try await route.handler(call) }
        let maximum = route.traits.contains(.largeBody) ? HTTPLimits.largeBody : limits.body
        var place: HeldBodies.Place?
        if let owner { place = try load.bodies.take(call.fields.contentLength, of: maximum, for: owner) }
        // Release the reserved memory after the answer is made, because the handler holds the body until then.
        defer { place.map(load.bodies.giveBack) }
        let body = try await BodyReader.collect(call, upTo: maximum, within: limits.bodyDeadline)
        return try await route.handler(call.with(body: body))
    }
}
