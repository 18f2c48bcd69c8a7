/// A complete store; each engine implements it, and one suite of tests checks them all.
package typealias BrokerStore = LoginStore & HandoffStore & ExchangeStore & ImportStore & SessionStore
    & RegistrationStore & MaintenanceStore
