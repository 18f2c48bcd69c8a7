import Broker

extension ProviderAnswer {
    /// Returns the meaning of an unusable answer to an import.
    ///
    /// With a 2xx, the provider has probably spent the app's token, so the answer counts as lost. With another status, for
    /// example the page of a firewall, the same call may be repeated.
    func importFailure(_ failure: ProviderFailure, at now: WallTime) -> ProviderFailure {
        guard case .unusable(let detail) = failure else { return failure }
        return isSuccess
            ? .lost(detail: detail) : .retryable(status: status, retryAfter: retryAfter(at: now), detail: detail)
    }
}
