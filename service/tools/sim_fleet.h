/* sim_fleet.h: many devices that send heartbeats, on a schedule or flat out. */
#ifndef PRESENCE_SIM_FLEET_H
#define PRESENCE_SIM_FLEET_H

#include "loop.h"
#include "sim_connection.h"
#include "sim_options.h"
#include "sim_stats.h"

struct sim_fleet;

enum status sim_fleet_new(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                          const struct sim_target *target, struct sim_fleet **fleet) MUST_CHECK;
/* Closes the connections; requests under way are dropped. */
void sim_fleet_free(struct sim_fleet *fleet);

/* Opens the connections; heartbeats go out while the loop runs. Once a second a line tells on stderr how it goes. */
void sim_fleet_start(struct sim_fleet *fleet);

const struct sim_stats *sim_fleet_stats(const struct sim_fleet *fleet);
struct sim_summary sim_fleet_summary(const struct sim_fleet *fleet);

#endif
