/// A kind of request that a backend may make (`backends.NAME.may`).
package enum BackendPermission: String, Sendable, CaseIterable {
    case introspect, token, forwardAuth = "forward-auth", handover
}
