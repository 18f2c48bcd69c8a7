/// The upstream of a failed relayed call, and the API that its token was for, with their configured names.
package struct FailedCallee: Sendable, Equatable {
    package let upstream: UpstreamName
    package let target: TokenTarget?

    package init(upstream: UpstreamName, target: TokenTarget?) {
        self.upstream = upstream
        self.target = target
    }
}
