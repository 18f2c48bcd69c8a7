/// The web child that a ticket was exchanged for, and the path and query of the page to open.
package struct HandedOver: Sendable {
    package let child: SignedIn
    package let path: String
    package let sameSite: SameSitePolicy
}
