import Broker
import BrokerHTTP
import BrokerProviders
import BrokerRelay

/// Checks the demands on sign-ins against the abilities of the providers.
enum StepUpRules {
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        for upstream in draft.upstreams {
            guard let settings = upstream.settings, !settings.require.isEmpty else { continue }
            let path = "\(upstream.path).require"
            let entries = Array(zip(settings.require, upstream.requirePaths))
            for (requirement, path) in entries where !requirement.isReached(by: settings.allow) {
                context.report("is an entry for calls that `allow` does not have", path: path)
            }
            guard let provider = draft.providers.first(where: { $0.name == settings.provider }) else { continue }
            for (requirement, path) in entries
            where !provider.settings.profile.stepUp.canFulfil(requirement.demand) {
                context.report("demands what provider `\(provider.name)` cannot do: see its `step_up`", path: path)
            }
            let clients = provider.settings.profile.clients.filter { settings.clients?.contains($0.name) ?? true }
            for (requirement, path) in entries
            where requirement.demand.presence && !clients.contains(where: { $0.binding.mode == .enforce }) {
                context.report(
                    "demands presence, which only bound sessions have: no client of provider `\(provider.name)` that may call it "
                        + "has `binding: {mode: enforce}`", path: path)
            }
            if let entry = entries.first(where: { $0.0.demand.ofSignIn != nil }) {
                warn(of: clients, provider.name, entry.1, upstream.line, context)
            }
            warnOfTokens(settings, clients, draft.backends, path, upstream.line, context)
        }
        for backend in draft.backends {
            guard let demand = backend.settings.require else { continue }
            let path = "\(backend.path).require"
            let asked = draft.providers.compactMap { provider in
                let clients = provider.settings.profile.clients.filter {
                    backend.settings.mayAsk(about: provider.name, $0.name)
                }
                return clients.isEmpty ? nil : (provider: provider, clients: clients)
            }
            if !asked.isEmpty, !asked.contains(where: { $0.provider.settings.profile.stepUp.canFulfil(demand) }) {
                context.report(
                    "demands what none of the providers can do whose sessions it may ask about: see their `step_up`",
                    path: path, line: backend.line)
            }
            for (provider, clients) in asked where provider.settings.profile.stepUp.canFulfil(demand) {
                warn(of: clients, provider.name, path, backend.line, context)
            }
        }
    }

    /// Warns if an app or backend gets an access token for the upstream.
    ///
    /// Only the relay checks the demand, and the holder of a token can call the upstream without the relay.
    private static func warnOfTokens(
        _ upstream: UpstreamSettings, _ clients: [ClientProfile], _ backends: [BackendSection], _ path: String,
        _ line: Int?, _ context: ConfigContext
    ) {
        // Leave out clients with bound tokens, because an app or backend cannot use such a token at the upstream.
        let clients = clients.filter { $0.senderConstraint == .off }
        func warn(_ who: String) {
            context.report(
                "is gone round with the access token itself, if the upstream is reached from there: \(who)", path: path,
                line: line, severity: .warning)
        }
        for client in clients where upstream.token == nil && client.handsOutAccessToken {
            warn("client `\(client.name)` has `hand_out_access_token: true`")
        }
        for backend in backends
        where clients.contains(where: { backend.settings.mayAsk(about: upstream.provider, $0.name) }) {
            // A demand of the backend itself protects the tokens that the backend gets, but only the upstream's demand can
            // include presence.
            let gets = backend.settings.require == nil || upstream.require.contains(where: \.demand.presence)
            guard gets else { continue }
            if backend.settings.may.contains(.token), upstream.token.map(backend.settings.tokens.contains) ?? true {
                warn("backend `\(backend.settings.name)` gets it by token exchange")
            } else if backend.settings.forwardAccessToken, upstream.token == nil {
                warn("backend `\(backend.settings.name)` has `forward_access_token: true`")
            }
        }
    }

    /// Warns of a demand on a client whose sessions are unbound.
    ///
    /// After a step-up, a copy of an unbound session's cookie meets the demand as well.
    private static func warn(
        of clients: [ClientProfile], _ provider: ProviderName, _ path: String, _ line: Int?, _ context: ConfigContext
    ) {
        for client in clients where client.binding.mode != .enforce {
            context.report(
                "is met by a copy of the cookie or token as well, once client `\(client.name)` of `\(provider)` has stepped "
                    + "up: `binding: {mode: enforce}` ties its sessions to their devices", path: path, line: line,
                severity: .warning)
        }
    }
}
