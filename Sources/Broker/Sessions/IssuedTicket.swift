/// A hand-over ticket, with the address that the web view has to open.
package struct IssuedTicket: Sendable {
    package let url: Secret
    package let expiresAt: WallTime
}
