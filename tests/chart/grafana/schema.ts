// What a dashboard's file may hold, by the types that Grafana publishes. A file is checked as `const file: File = {…}`,
// where TypeScript also refuses keys that are not known.

import type { Dashboard, DataQuery, FieldConfig, Panel, RowPanel } from "@grafana/schema";
import type * as bargauge from "@grafana/schema/dist/esm/raw/composable/bargauge/panelcfg/x/BarGaugePanelCfg_types.gen";
import type * as stat from "@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen";
import type * as timeseries from "@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen";

// As JSON has it: the values of enumerations as text.
type Json<T> = unknown extends T ? T : T extends string ? `${T}` : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
// Options that are left out are filled in by Grafana.
type Some<T> = unknown extends T ? T : T extends string ? `${T}` : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

interface PrometheusQuery extends DataQuery {
  expr: string;
  legendFormat: string;
  instant: boolean;
  range: boolean;
}

type Shown<Kind extends string, Options, Custom> = Omit<Json<Panel>, "type" | "options" | "fieldConfig" | "targets"> & {
  type: Kind;
  targets: Json<PrometheusQuery>[];
  options: Some<Options>;
  fieldConfig: { defaults: Omit<Json<FieldConfig>, "custom"> & { custom?: Some<Custom> }; overrides: [] };
};

type AnyPanel =
  | (Omit<Json<RowPanel>, "panels"> & { panels: [] })
  | Shown<"stat", stat.Options, never>
  | Shown<"bargauge", bargauge.Options, never>
  | Shown<"timeseries", timeseries.Options, timeseries.FieldConfig>;

export type File = Omit<Json<Dashboard>, "panels"> & { panels: AnyPanel[] };
